package cache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/protection"
)

// A guard may be a chain with an execution timeout: the loader's ctx ends with it, and the breaker hears of a timeout even
// if the loader comes back with a value.
func TestGuardBoundsTheLoad(t *testing.T) {
	for name, come := range map[string]func(context.Context, int) (int, error){
		"with the error of ctx": func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
		"with a value":          func(ctx context.Context, n int) (int, error) { <-ctx.Done(); return n, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit, err := protection.NewExecutionTimeout(time.Second)
				assert.NoError(t, err)
				b, err := protection.NewBreaker(protection.BreakerOptions{})
				assert.NoError(t, err)
				var cause error
				src := &source{}
				src.does(func(ctx context.Context, n int) (int, error) {
					v, err := come(ctx, n)
					cause = context.Cause(ctx)
					return v, err
				})
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, LoadTimeout: time.Minute, Guard: protection.Chain(limit, b)})
				began := time.Now()
				c.Get(t.Context(), "a")
				assert.Equal(t, time.Since(began), time.Second)
				assert.Equal(t, cause, protection.ErrExecutionTimeout)
				s := b.Snapshot()
				assert.Equal(t, [...]uint64{s.Success, s.Failure, s.Timeout, s.Cancelled}, [...]uint64{0, 0, 1, 0})
			})
		})
	}
}

func TestGuardJudgesTheLoad(t *testing.T) {
	contention := errors.New("deadlock")
	for name, o := range map[string]struct {
		err  error
		want [4]uint64 // success, failure, timeout, ignored
	}{
		"value":                        {nil, [4]uint64{1, 0, 0, 0}},
		"not found":                    {loader.ErrNotFound, [4]uint64{1, 0, 0, 0}},
		"error":                        {errors.New("down"), [4]uint64{0, 1, 0, 0}},
		"what the classifier lets off": {contention, [4]uint64{0, 0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := protection.NewBreaker(protection.BreakerOptions{Classify: func(err error) protection.Outcome {
					if errors.Is(err, contention) {
						return protection.Ignored
					}
					return protection.Classify(err)
				}})
				assert.NoError(t, err)
				src := &source{}
				src.does(func(context.Context, int) (int, error) { return 0, o.err })
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Guard: protection.Chain(b)})
				c.Get(t.Context(), "a")
				settle()
				s := b.Snapshot()
				assert.Equal(t, [...]uint64{s.Success, s.Failure, s.Timeout, s.Cancelled}, o.want)
			})
		})
	}
}
