package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
)

func TestStaleWhileRevalidateAnswersAtOnceAndRefreshesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: 3 * time.Second, StaleIfError: off,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		src.takes.Store(int64(time.Second))
		time.Sleep(10 * time.Second)
		began := time.Now()
		got, err := c.Lookup(t.Context(), "a", cache.Read{})
		assert.NoError(t, err)
		assert.Equal(t, got, cache.Answer[int]{Value: 1, Source: cache.FromMemory, Age: 10 * time.Second, Stale: true})
		assert.Equal(t, time.Since(began), 0)
		time.Sleep(time.Second)
		settle()
		got, err = c.Lookup(t.Context(), "a", cache.Read{})
		assert.NoError(t, err)
		assert.Equal(t, got, cache.Answer[int]{Value: 2, Source: cache.FromMemory, Age: time.Second})
	})
}

func TestStaleWhileRevalidateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: 3 * time.Second, StaleIfError: off,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		time.Sleep(13 * time.Second)
		is(t, 2)(c.Get(t.Context(), "a")) // waited for
		assert.Equal(t, c.Stats().Stale, 0)
	})
}

func TestI7FailuresNeverExtendTheStaleLife(t *testing.T) {
	for _, redis := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			src := &source{}
			o := cache.Options[string, int]{
				Load: src.Load, TTL: 5 * time.Second, StaleIfError: 5 * time.Second, Jitter: off,
				RetryBackoff: 2 * time.Second, MaxRetryBackoff: 2 * time.Second,
			}
			if redis {
				o.Remote = newWorld(t).Redis
			}
			c := open(t, o)
			is(t, 1)(c.Get(t.Context(), "a"))
			src.fails()
			for range 99 { // up to 9.9 s
				time.Sleep(100 * time.Millisecond)
				is(t, 1)(c.Get(t.Context(), "a"))
			}
			time.Sleep(100 * time.Millisecond)
			for range 20 { // 10 s to 12 s
				fails[int](t, errSource)(c.Get(t.Context(), "a"))
				_, err := c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
				assert.ErrorIs(t, err, cache.ErrNotCached)
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

func TestI7NoStaleAnswerAtOrAfterTheEnd(t *testing.T) {
	for name, broken := range map[string]func(context.Context, int) (int, error){
		"fails": func(context.Context, int) (int, error) { return 0, errSource },
		"hangs": func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
		"panics": func(context.Context, int) (int, error) {
			panic("no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{}
				c := open(t, cache.Options[string, int]{
					Load: src.Load, TTL: time.Second, StaleIfError: time.Second, Jitter: off, LoadTimeout: 50 * time.Millisecond,
					RetryBackoff: off,
				})
				began := time.Now()
				is(t, 1)(c.Get(t.Context(), "a"))
				src.does(broken)
				for time.Since(began) < 3*time.Second {
					v, err := c.Get(t.Context(), "a")
					if err == nil && time.Since(began) >= 2*time.Second {
						t.Fatalf("answered %d at %v", v, time.Since(began))
					}
					if err != nil && time.Since(began) < 2*time.Second {
						t.Fatalf("failed with %v at %v", err, time.Since(began))
					}
					time.Sleep(7 * time.Millisecond)
				}
			})
		})
	}
}

// Refused loads are covered by stale answers as failed ones are.
func TestStaleAnswersCoverRefusedLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g := &source{}, newGuard(t, 1)
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: time.Second, StaleIfError: time.Second, Jitter: off, Guard: g,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		g.shut.Store(true)
		time.Sleep(1900 * time.Millisecond)
		is(t, 1)(c.Get(t.Context(), "a"))
		g.shut.Store(false)
		is(t, 2)(c.Get(t.Context(), "a")) // a refusal leaves no mark
	})
}

func TestSoftTimeoutAnswersStaleAndTheLoadGoesOn(t *testing.T) {
	for _, tc := range []struct {
		name      string
		soft      time.Duration
		took      time.Duration
		wantStale bool
	}{
		{"default", 0, 100 * time.Millisecond, true},
		{"30ms", 30 * time.Millisecond, 30 * time.Millisecond, true},
		{"off", off, time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{}
				c := open(t, cache.Options[string, int]{
					Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: off, SoftTimeout: tc.soft,
				})
				is(t, 1)(c.Get(t.Context(), "a"))
				time.Sleep(11 * time.Second)
				src.takes.Store(int64(time.Second))
				began := time.Now()
				got, err := c.Lookup(t.Context(), "a", cache.Read{})
				assert.NoError(t, err)
				assert.Equal(t, time.Since(began), tc.took)
				assert.Equal(t, got.Stale, tc.wantStale)
				time.Sleep(time.Second)
				is(t, 2)(c.Get(t.Context(), "a"))
				assert.Equal(t, src.loads.Load(), 2)
			})
		})
	}
}

// A stale value that only Redis has is as good as a local one.
func TestSoftTimeoutAnswersTheStaleValueOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		o := cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, Jitter: off, StaleWhileRevalidate: off, Remote: w.Redis,
		}
		is(t, 1)(open(t, o).Get(t.Context(), "a"))
		time.Sleep(11 * time.Second)
		src.takes.Store(int64(time.Second))
		c := open(t, o)
		began := time.Now()
		is(t, 1)(c.Get(t.Context(), "a"))
		assert.Equal(t, time.Since(began), cache.DefaultSoftTimeout)
	})
}

// A load that has ended but whose value is still on its way to Redis has a fresh value, not a stale one.
func TestFreshValueOnItsWayToRedisIsNotCalledStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, Remote: w.Redis})
		set := w.wire.holdRequest("set")
		got, err := c.Lookup(t.Context(), "a", cache.Read{})
		assert.NoError(t, err)
		assert.Equal(t, got.Value, 1)
		assert.Equal(t, got.Stale, false)
		assert.Equal(t, c.Stats().Stale, 0)
		assert.Equal(t, c.Stats().Runway, 0)
		set.release()
	})
}

func TestInvalidatedValueIsNotAnsweredAsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, StaleIfError: time.Hour, Remote: w.Redis})
		is(t, 1)(c.Get(t.Context(), "a"))
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		src.fails()
		fails[int](t, errSource)(c.Get(t.Context(), "a"))
	})
}

func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, Jitter: off, Remote: w.Redis, RetryBackoff: off,
		})
		lookup := func(most time.Duration) (int, error) {
			got, err := c.Lookup(t.Context(), "a", cache.Read{MaxAge: most})
			return got.Value, err
		}
		is(t, 1)(lookup(time.Second))
		time.Sleep(time.Second)
		is(t, 1)(lookup(time.Second))
		time.Sleep(time.Millisecond)
		is(t, 2)(lookup(time.Second)) // neither memory's nor Redis' copy will do
		time.Sleep(5 * time.Second)
		is(t, 2)(lookup(0))
		src.fails()
		fails[int](t, errSource)(lookup(time.Second)) // an older value is no answer
		is(t, 2)(lookup(6 * time.Second))
	})
}
