package cache_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/observe"
)

func TestCancelledLeaderPoisonsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(50 * time.Millisecond))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		leader := later(func() (int, error) { return c.Get(ctx, "a") })
		settle()
		waiter := later(func() (int, error) { return c.Get(t.Context(), "a") })
		time.Sleep(10 * time.Millisecond)
		cancel()
		got := <-leader
		fails[int](t, context.Canceled)(got.value, got.err)
		assert.Equal(t, got.took, 10*time.Millisecond)
		got = <-waiter
		is(t, 1)(got.value, got.err)
		assert.Equal(t, src.loads.Load(), 1)
	})
}

func TestWaitersLeaveOnTheirOwnDeadlinesAndLaterOnesJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(100 * time.Millisecond))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute})
		get := func(limit time.Duration) <-chan reply[int] {
			return later(func() (int, error) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				return c.Get(ctx, "a")
			})
		}
		first, second, third := get(10*time.Millisecond), get(20*time.Millisecond), get(time.Second)
		time.Sleep(30 * time.Millisecond)
		fourth := get(time.Second)
		for i, ch := range []<-chan reply[int]{first, second} {
			got := <-ch
			fails[int](t, context.DeadlineExceeded)(got.value, got.err)
			assert.Equal(t, got.took, time.Duration(i+1)*10*time.Millisecond)
		}
		for _, ch := range []<-chan reply[int]{third, fourth} {
			got := <-ch
			is(t, 1)(got.value, got.err)
		}
		assert.Equal(t, src.loads.Load(), 1)
	})
}

// The load of callers who have all gone is not wasted.
func TestFinishedLoadIsStoredThoughNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(50 * time.Millisecond))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		fails[int](t, context.DeadlineExceeded)(c.Get(ctx, "a"))
		time.Sleep(time.Second)
		is(t, 1)(c.Get(t.Context(), "a"))
		assert.Equal(t, src.loads.Load(), 1)
	})
}

func TestLoaderSeesTheValuesOfTheFirstCallersCtxButNotItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		c := open(t, cache.Options[string, string]{TTL: time.Minute, Load: func(ctx context.Context, _ string) (string, error) {
			if err := rest(ctx, 50*time.Millisecond); err != nil {
				return "", err
			}
			return ctx.Value(key{}).(string), nil
		}})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Millisecond)
		defer cancel()
		_, err := c.Get(ctx, "a")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		is(t, "trace")(c.Get(t.Context(), "a"))
	})
}

func TestI9PanicAndGoexitOfALoaderBecomeErrorsAndLeaveNothing(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("broken") },
		"nil":    func() { panic(nil) }, //nolint:govet // what users do
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, g := &source{}, newGuard(t, 1)
				src.takes.Store(int64(10 * time.Millisecond))
				src.does(func(_ context.Context, n int) (int, error) {
					if n == 1 {
						end()
					}
					return n, nil
				})
				seen := &events{}
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Guard: g, RetryBackoff: off, Observer: seen})
				waiters := make([]<-chan reply[int], 0, 3)
				for range 3 {
					waiters = append(waiters, later(func() (int, error) { return c.Get(t.Context(), "a") }))
				}
				for _, ch := range waiters {
					got := <-ch
					assert.Equal(t, got.value, 0)
					p := assert.ErrorAs[*loader.PanicError](t, got.err)
					assert.True(t, len(p.Stack) > 0, "no stack: ")
				}
				assert.Equal(t, g.InFlight(), 0)
				assert.Equal(t, seen.count(observe.LoadFailed), 1)
				assert.Equal(t, c.Stats().Loading, 0)
				is(t, 2)(c.Get(t.Context(), "a"))
				assert.Equal(t, g.InFlight(), 0)
			})
		})
	}
}

func TestInvalidateInTheMiddleOfALoadWithWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		src.takes.Store(int64(100 * time.Millisecond))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Remote: w.Redis})
		first := later(func() (int, error) { return c.Get(t.Context(), "a") })
		second := later(func() (int, error) { return c.Get(t.Context(), "a") })
		time.Sleep(50 * time.Millisecond)
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		third := later(func() (int, error) { return c.Get(t.Context(), "a") })
		for want, chs := range map[int][]<-chan reply[int]{1: {first, second}, 2: {third}} {
			for _, ch := range chs {
				got := <-ch
				is(t, want)(got.value, got.err)
			}
		}
		is(t, 2)(c.Get(t.Context(), "a"))
		assert.Equal(t, src.loads.Load(), 2)
	})
}

func TestHungLoadFreesTheKeyAndItsOrphanHoldsOnlyItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g, seen, hung := &source{}, newGuard(t, 2), &events{}, newPause()
		src.does(func(_ context.Context, n int) (int, error) { // takes no notice of ctx
			if n == 1 {
				hung.stand()
			}
			return n, nil
		})
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: time.Minute, LoadTimeout: time.Second, RetryBackoff: off, Guard: g, Observer: seen,
		})
		time.AfterFunc(time.Hour, hung.release) // should nothing free the key
		began := time.Now()
		fails[int](t, cache.ErrLoadTimeout)(c.Get(t.Context(), "a"))
		assert.True(t, time.Since(began) <= time.Second+20*time.Millisecond, "took ", time.Since(began), ": ")
		s := c.Stats()
		assert.Equal(t, [...]int64{s.Orphans, s.Loading}, [...]int64{1, 1})
		assert.Equal(t, g.InFlight(), 1)
		assert.Equal(t, seen.count(observe.LoadOrphaned), 1)

		is(t, 2)(c.Get(t.Context(), "a")) // the key is free
		hung.release()
		settle()
		s = c.Stats()
		assert.Equal(t, [...]int64{s.Orphans, s.Loading}, [...]int64{0, 0})
		assert.Equal(t, g.InFlight(), 0)
		is(t, 2)(c.Get(t.Context(), "a")) // what the orphan returned is lost
	})
}

// Whether the loader honours its ctx or not, whether it waits in the guard or in the source: the caller reads one error.
func TestEveryLoadTimeoutIsErrLoadTimeout(t *testing.T) {
	for name, o := range map[string]struct {
		load  func(context.Context, int) (int, error)
		slots int
	}{
		"loader that honours ctx": {func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }, 1},
		"wait in the guard":       {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, g := &source{}, newGuard(t, 1)
				if o.slots == 0 {
					p, err := g.Acquire(t.Context())
					assert.NoError(t, err)
					defer p.Done(1)
				}
				src.does(o.load)
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, LoadTimeout: 100 * time.Millisecond, Guard: g})
				_, err := c.Get(t.Context(), "a")
				assert.ErrorIs(t, err, cache.ErrLoadTimeout)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

// Callers share an error as they share a value: to wrap it is no race.
func TestErrorsAreSharedWithoutARace(t *testing.T) {
	src := &source{}
	src.fails()
	c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, RetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				_, err := c.Get(t.Context(), "a")
				if err == nil || err.Error() == "" {
					t.Error("no error")
				}
			}
		})
	}
	wg.Wait()
}
