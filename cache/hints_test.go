package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/loader"
)

// longLived gives the values of src a life of an hour.
func longLived(src *source) loader.Func[string, int] {
	return func(ctx context.Context, k string) (int, error) {
		loader.TTL(ctx, time.Hour)
		return src.Load(ctx, k)
	}
}

func TestLoaderChoosesTheTTLOfItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.does(func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				loader.TTL(ctx, 3*time.Second)
			}
			return n, nil
		})
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: time.Minute, Jitter: off, StaleWhileRevalidate: off, StaleIfError: off,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		time.Sleep(2990 * time.Millisecond)
		is(t, 1)(c.Get(t.Context(), "a"))
		time.Sleep(10 * time.Millisecond)
		is(t, 2)(c.Get(t.Context(), "a"))
		time.Sleep(59990 * time.Millisecond)
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

func TestNoStoreAnswersOnlyItsOwnWaiters(t *testing.T) {
	for name, hint := range map[string]func(context.Context){
		"NoStore": loader.NoStore,
		"TTL 0":   func(ctx context.Context) { loader.TTL(ctx, 0) },
		"TTL -1":  func(ctx context.Context) { loader.TTL(ctx, -1) },
		"TTL 1us": func(ctx context.Context) { loader.TTL(ctx, time.Microsecond) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, src := newWorld(t), &source{}
				src.takes.Store(int64(time.Millisecond))
				src.does(func(ctx context.Context, n int) (int, error) { hint(ctx); return n, nil })
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Remote: w.Redis})
				first := later(func() (int, error) { return c.Get(t.Context(), "a") })
				second := later(func() (int, error) { return c.Get(t.Context(), "a") })
				for _, ch := range []<-chan reply[int]{first, second} {
					got := <-ch
					is(t, 1)(got.value, got.err)
				}
				is(t, 2)(c.Get(t.Context(), "a"))
				is(t, 3)(c.Get(t.Context(), "a"))
				assert.True(t, !w.holds("a"), "stored in Redis: ")
				_, err := c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
				assert.ErrorIs(t, err, cache.ErrNotCached)
			})
		})
	}
}

// The hint is that of one load: the next is not bound by it.
func TestNoStoreEndsWithItsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.does(func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				loader.NoStore(ctx)
			}
			return n, nil
		})
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute})
		is(t, 1)(c.Get(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}
