package cache_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func TestFailedKeyRestsAndTheRestDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.fails()
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, RetryBackoff: 100 * time.Millisecond, MaxRetryBackoff: time.Second})
		for i := range 7 {
			fails[int](t, errSource)(c.Get(t.Context(), "a"))
			assert.Equal(t, src.loads.Load(), int64(i+1))
			whole := min(100*time.Millisecond<<i, time.Second)
			_, err := c.Get(t.Context(), "a")
			resting := assert.ErrorAs[*cache.BackoffError](t, err)
			assert.ErrorIs(t, err, errSource)
			assert.True(t, resting.RetryAfter >= whole/2 && resting.RetryAfter <= whole, "rest ", i, " is ", resting.RetryAfter, ": ")
			time.Sleep(resting.RetryAfter - time.Nanosecond)
			fails[int](t, errSource)(c.Get(t.Context(), "a"))
			assert.Equal(t, src.loads.Load(), int64(i+1), "loaded before its time: ")
			is(t, int(src.loads.Load())+1)(func() (int, error) { // other keys do not rest
				src.does(nil)
				defer src.fails()
				defer src.loads.Add(-1)
				return c.Get(t.Context(), fmt.Sprint("b", i))
			}())
			time.Sleep(time.Nanosecond)
		}
	})
}

func TestRestEndsWithASuccessOrAnInvalidation(t *testing.T) {
	for name, end := range map[string]func(context.Context, *cache.Cache[string, int]) error{
		"Refresh": func(ctx context.Context, c *cache.Cache[string, int]) error {
			_, err := c.Refresh(ctx, "a")
			return err
		},
		"Invalidate": func(ctx context.Context, c *cache.Cache[string, int]) error { return c.Invalidate(ctx, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{}
				src.fails()
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, RetryBackoff: time.Minute, MaxRetryBackoff: time.Minute})
				fails[int](t, errSource)(c.Get(t.Context(), "a"))
				src.does(nil)
				fails[int](t, errSource)(c.Get(t.Context(), "a"))
				assert.NoError(t, end(t.Context(), c))
				is(t, 2)(c.Get(t.Context(), "a"))
			})
		})
	}
}

func TestRestCanBeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.fails()
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, RetryBackoff: off})
		for i := range 5 {
			fails[int](t, errSource)(c.Get(t.Context(), "a"))
			assert.Equal(t, src.loads.Load(), int64(i+1))
		}
	})
}

// Marks do not outlive an outage: they end when the guard's breaker closes, also when it is one of a chain.
func TestRestsEndWhenTheBreakerCloses(t *testing.T) {
	for _, chained := range []bool{false, true} {
		t.Run(fmt.Sprintf("chained=%v", chained), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := protection.NewBreaker(protection.BreakerOptions{Name: "b", MinCalls: 2, OpenFor: time.Second})
				assert.NoError(t, err)
				var g protection.Policy = b
				if chained {
					g = protection.Chain(newGuard(t, 4), b)
				}
				src := &source{}
				src.fails()
				c := open(t, cache.Options[string, int]{
					Load: src.Load, TTL: time.Minute, RetryBackoff: time.Hour, MaxRetryBackoff: time.Hour, Guard: g,
				})
				for i := range 4 {
					_, err := c.Get(t.Context(), strconv.Itoa(i))
					assert.Error(t, err)
				}
				assert.Equal(t, b.State(), protection.Open)
				src.does(nil)
				time.Sleep(time.Second)
				_, err = c.Get(t.Context(), "trial")
				assert.NoError(t, err)
				assert.Equal(t, b.State(), protection.Closed)
				_, err = c.Get(t.Context(), "0")
				assert.NoError(t, err)
			})
		})
	}
}

// Refused loads leave no mark: nothing was tried.
func TestRefusalLeavesNoMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g := &source{}, newGuard(t, 1)
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Guard: g, RetryBackoff: time.Hour, MaxRetryBackoff: time.Hour})
		g.shut.Store(true)
		fails[int](t, protection.ErrShed)(c.Get(t.Context(), "a"))
		g.shut.Store(false)
		is(t, 1)(c.Get(t.Context(), "a"))
		s := c.Stats()
		assert.Equal(t, [...]uint64{s.LoadsRefused, s.LoadErrors, s.Loads}, [...]uint64{1, 0, 1})
	})
}

// Every load passes the guard, whatever asked for it.
func TestEveryLoadPassesTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g := &source{}, newGuard(t, 1)
		src.does(func(_ context.Context, n int) (int, error) {
			if g.InFlight() != 1 {
				t.Error("a load without a permit")
			}
			return n, nil
		})
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: 5 * time.Second, Guard: g, Remote: newWorld(t).Redis,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		is(t, 2)(c.Refresh(t.Context(), "a"))
		time.Sleep(10 * time.Second)
		is(t, 2)(c.Get(t.Context(), "a")) // refreshed behind
		settle()
		time.Sleep(time.Second)
		_, err := c.Lookup(t.Context(), "a", cache.Read{MaxAge: time.Millisecond})
		assert.NoError(t, err)
		assert.Equal(t, src.loads.Load(), 4)
		assert.Equal(t, g.asked.Load(), 4)
		assert.Equal(t, g.InFlight(), 0)
	})
}
