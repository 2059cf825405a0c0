package cache_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
)

// readUntil reads the key every step until the answer differs from v, and returns the time that took.
func readUntil(t *testing.T, c *cache.Cache[string, int], v int, step time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		got, err := c.Get(t.Context(), "a")
		assert.NoError(t, err)
		if got != v {
			return time.Since(began)
		}
		time.Sleep(step)
	}
}

func TestEarlyRefreshReplacesAValueBeforeItExpires(t *testing.T) {
	for _, load := range []time.Duration{50 * time.Millisecond, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			src := &source{}
			src.takes.Store(int64(load))
			c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: off})
			for v := range 20 {
				is(t, v+1)(c.Get(t.Context(), "a"))
				took := readUntil(t, c, v+1, time.Millisecond) + load // it counts from the start of the load
				assert.True(t, took >= 5*time.Second, "replaced after ", took, ", in the first half of its life: ")
				assert.True(t, took <= 10*time.Second+load, "replaced after ", took, ": ")
			}
			s := c.Stats()
			assert.Equal(t, s.Stale, 0)
			// With a reading every millisecond and a load of this length hardly any life runs to its end.
			assert.True(t, s.Refreshes >= 19, "refreshes: ", s.Refreshes, ": ")
			assert.True(t, s.Loaded <= 3, "loads that were waited for: ", s.Loaded, ": ")
			assert.Equal(t, src.loads.Load(), int64(s.Loads))
			assert.True(t, s.Loads <= 22, "loads: ", s.Loads, ": ")
		})
	}
}

func TestNoEarlyRefreshWithBetaOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(2 * time.Second))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, Jitter: off, Beta: off, StaleWhileRevalidate: off})
		is(t, 1)(c.Get(t.Context(), "a"))
		for range 7999 {
			is(t, 1)(c.Get(t.Context(), "a"))
			time.Sleep(time.Millisecond)
		}
		assert.Equal(t, src.loads.Load(), 1)
	})
}

func TestRefreshOutlivesTheRequestThatStartedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: 5 * time.Second})
		is(t, 1)(c.Get(t.Context(), "a"))
		src.takes.Store(int64(time.Second))
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		is(t, 1)(c.Get(ctx, "a"))
		cancel()
		time.Sleep(time.Second)
		settle()
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

func TestFailedRefreshKeepsTheOldValueAndFreesTheKey(t *testing.T) {
	for name, broken := range map[string]func(context.Context, int) (int, error){
		"error":  func(context.Context, int) (int, error) { return 0, errSource },
		"panic":  func(context.Context, int) (int, error) { panic("no") },
		"Goexit": func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil },
		"hangs":  func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{}
				c := open(t, cache.Options[string, int]{
					Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: 5 * time.Second,
					RetryBackoff: 10 * time.Millisecond, LoadTimeout: 100 * time.Millisecond,
				})
				is(t, 1)(c.Get(t.Context(), "a"))
				src.does(broken)
				time.Sleep(10 * time.Second)
				is(t, 1)(c.Get(t.Context(), "a"))
				time.Sleep(time.Second)
				is(t, 1)(c.Get(t.Context(), "a"))
				settle()
				src.does(nil)
				time.Sleep(time.Second)
				is(t, 1)(c.Get(t.Context(), "a"))
				settle()
				is(t, int(src.loads.Load()))(c.Get(t.Context(), "a"))
				assert.True(t, src.loads.Load() > 2)
			})
		})
	}
}

// Many readers of one stale key ask for one refresh between them.
func TestRefreshesOfAKeyAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: 5 * time.Second, Refreshers: 4})
		is(t, 1)(c.Get(t.Context(), "a"))
		src.takes.Store(int64(time.Second))
		time.Sleep(10 * time.Second)
		for range 1000 {
			is(t, 1)(c.Get(t.Context(), "a"))
		}
		time.Sleep(2 * time.Second)
		s := c.Stats()
		assert.Equal(t, [...]uint64{s.Loads, s.Refreshes, s.RefreshesDropped}, [...]uint64{2, 1, 0})
	})
}

// Ten thousand reads of stale values a second whose source does not answer.
func TestI9BlockedLoaderUnderStaleReadsBoundsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, workers = 10_000, 4
		var blocked atomic.Bool
		hung := newPause()
		defer hung.release()
		c := open(t, cache.Options[int, int]{
			TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: time.Minute, Refreshers: workers, LoadTimeout: time.Hour,
			Local: newLocal(t, roomy),
			Load: func(_ context.Context, k int) (int, error) {
				if blocked.Load() {
					hung.stand()
				}
				return k, nil
			},
		})
		for k := range keys {
			is(t, k)(c.Get(t.Context(), k))
		}
		settle()
		before := runtime.NumGoroutine()
		blocked.Store(true)
		time.Sleep(10 * time.Second)
		for k := range keys {
			is(t, k)(c.Get(t.Context(), k))
			time.Sleep(100 * time.Microsecond)
		}
		s := c.Stats()
		more := runtime.NumGoroutine() - before
		assert.True(t, more <= 5*workers, "goroutines more: ", more, ": ")
		assert.Equal(t, s.Loading, workers)
		assert.True(t, s.RefreshesDropped > keys/2, "dropped: ", s.RefreshesDropped, ": ")
	})
}

// A dropped refresh is asked for again by a later read.
func TestDroppedRefreshIsMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, seen := &source{}, &events{}
		const keys = 500
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: time.Minute, Refreshers: 1,
			Local: newLocal(t, roomy), Observer: seen,
		})
		for i := range keys {
			is(t, i+1)(c.Get(t.Context(), strconv.Itoa(i)))
		}
		src.takes.Store(int64(time.Millisecond))
		time.Sleep(10 * time.Second)
		for range 20 {
			for i := range keys {
				_, err := c.Get(t.Context(), strconv.Itoa(i))
				assert.NoError(t, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		s := c.Stats()
		assert.True(t, s.RefreshesDropped > 0)
		told := uint64(seen.count(observe.RefreshDropped))
		assert.True(t, told > 0 && told < s.RefreshesDropped, told, " events of ", s.RefreshesDropped, ": ")
		assert.Equal(t, src.loads.Load(), 2*keys)
	})
}

func TestRefreshLoadsAnewWhateverIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Remote: w.Redis, RetryBackoff: time.Second})
		is(t, 1)(c.Get(t.Context(), "a"))
		is(t, 2)(c.Refresh(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a"))
		src.fails()
		fails[int](t, errSource)(c.Refresh(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a")) // the old value stays
		src.does(nil)
		is(t, 4)(c.Refresh(t.Context(), "a")) // a resting key is tried all the same
		src.does(absent)
		fails[int](t, cache.ErrNotFound)(c.Refresh(t.Context(), "a"))
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
	})
}

// A Refresh that comes while a read waits for Redis must not be content with what Redis has.
func TestRefreshIsNotContentWithAFlightThatReadRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		o := cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Remote: w.Redis}
		is(t, 1)(open(t, o).Get(t.Context(), "a"))
		c := open(t, o)
		held := w.wire.holdReply("get")
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-held.reached
		refresh := later(func() (int, error) { return c.Refresh(t.Context(), "a") })
		settle()
		held.release()
		got := <-reader
		is(t, 1)(got.value, got.err)
		got = <-refresh
		is(t, 2)(got.value, got.err)
	})
}

// A refusal by the guard lets refreshes rest a moment: reads that need a load come first.
func TestRefreshesPauseAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g := &source{}, newGuard(t, 4)
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: time.Minute, Guard: g})
		is(t, 1)(c.Get(t.Context(), "a"))
		g.shut.Store(true)
		time.Sleep(10 * time.Second)
		for range 10_000 { // one second
			is(t, 1)(c.Get(t.Context(), "a"))
			time.Sleep(100 * time.Microsecond)
		}
		asked := g.asked.Load()
		assert.True(t, asked > 10 && asked <= 202, "asked the guard: ", asked, ": ")
		g.shut.Store(false)
		time.Sleep(200 * time.Millisecond)
		is(t, 1)(c.Get(t.Context(), "a"))
		settle()
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}
