package cache_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/tiers"
)

// The wall clock stands at x.950 when the value is written; the lifetime is right to 10 ms and never too long.
func TestTTLIsExact(t *testing.T) {
	for _, ttl := range []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		for _, redis := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(950 * time.Millisecond)
				src := &source{}
				o := cache.Options[string, int]{Load: src.Load, TTL: ttl, Jitter: off, StaleWhileRevalidate: off, StaleIfError: off}
				if redis {
					o.Remote = newWorld(t).Redis
				}
				c := open(t, o)
				began := time.Now()
				is(t, 1)(c.Get(t.Context(), "a"))
				took := readUntil(t, c, 1, 100*time.Microsecond)
				assert.True(t, took >= ttl && took <= ttl+time.Millisecond, "lived ", took, ": ")
				assert.True(t, time.Since(began) >= ttl)
			})
		}
	}
}

// The TTL counts from the start of the load: one shorter than its load is born stale, and its waiters get it.
func TestTTLShorterThanTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(2 * time.Second))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Second, Jitter: off, StaleWhileRevalidate: off, StaleIfError: off})
		is(t, 1)(c.Get(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

func TestManyShortLivedKeysAreAlwaysOnesOwn(t *testing.T) {
	keys := 10_000
	if testing.Short() || raceEnabled {
		keys = 1_000
	}
	c := open(t, cache.Options[int, int]{
		TTL: 5 * time.Millisecond, Load: func(_ context.Context, k int) (int, error) { return k, nil },
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range keys / 4 {
				k := (i*4 + g*1237) % keys
				for range 2 {
					if v, err := c.Get(t.Context(), k); v != k || err != nil {
						t.Errorf("got %d, %v for %d", v, err, k)
					}
				}
			}
		})
	}
	wg.Wait()
}

// lives returns how long each of many values lived, in steps of 10 ms.
func lives(t *testing.T, o cache.Options[int, int], keys int) []time.Duration {
	t.Helper()
	loads := 0
	o.Load = func(context.Context, int) (int, error) { loads++; return 0, nil }
	o.Local = newLocal(t, roomy)
	c := open(t, o)
	for k := range keys {
		is(t, 0)(c.Get(t.Context(), k))
	}
	began := time.Now()
	gone := make([]time.Duration, 0, keys)
	living := make([]int, keys)
	for k := range living {
		living[k] = k
	}
	const step = 10 * time.Millisecond
	time.Sleep(o.TTL/2 - step)
	for len(living) > 0 && time.Since(began) <= o.TTL {
		time.Sleep(step)
		living = slices.DeleteFunc(living, func(k int) bool {
			_, err := c.Lookup(t.Context(), k, cache.Read{NoLoad: true})
			if errors.Is(err, cache.ErrNotCached) {
				gone = append(gone, time.Since(began))
				return true
			}
			assert.NoError(t, err)
			return false
		})
	}
	assert.Equal(t, loads, keys)
	return gone
}

// The expiries of loaded values are spread over the promised window, and none is outside.
func TestJitterSpreadsExpiries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := 10_000
		if testing.Short() || raceEnabled {
			keys = 2_000
		}
		gone := lives(t, cache.Options[int, int]{TTL: time.Second, Jitter: 0.5, StaleWhileRevalidate: off, StaleIfError: off}, keys)
		assert.Equal(t, len(gone), keys)
		const buckets = 10
		var histogram [buckets]int
		for _, d := range gone {
			assert.True(t, d >= 500*time.Millisecond && d <= time.Second+10*time.Millisecond, "lived ", d, ": ")
			histogram[min(buckets-1, int((d-500*time.Millisecond)*buckets/(501*time.Millisecond)))]++
		}
		for _, n := range histogram {
			assert.True(t, n > keys/buckets*7/10 && n < keys/buckets*13/10, "histogram: ", histogram, ": ")
		}
	})
}

func TestJitterDefaultsToATenthAndCanBeOff(t *testing.T) {
	for _, tc := range []struct {
		jitter   float64
		earliest time.Duration
	}{{0, 900 * time.Millisecond}, {off, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			gone := lives(t, cache.Options[int, int]{TTL: time.Second, Jitter: tc.jitter, StaleWhileRevalidate: off, StaleIfError: off}, 500)
			assert.Equal(t, len(gone), 500)
			assert.True(t, slices.Min(gone) >= tc.earliest, "the first went at ", slices.Min(gone), ": ")
			assert.True(t, slices.Min(gone) <= tc.earliest+20*time.Millisecond, "the first went at ", slices.Min(gone), ": ")
		})
	}
}

// Local copies of one value in Redis do not end together either.
func TestJitterSpreadsLocalTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		load := func(_ context.Context, k int) (int, error) { return k, nil }
		ends := map[time.Duration]bool{}
		for range 20 {
			c := open(t, cache.Options[int, int]{Load: load, TTL: time.Hour, LocalTTL: time.Second, Jitter: 0.5, Remote: w.Redis})
			is(t, 1)(c.Get(t.Context(), 1))
			for began, before := time.Now(), c.Stats().FromRedis; ; time.Sleep(10 * time.Millisecond) {
				is(t, 1)(c.Get(t.Context(), 1))
				if c.Stats().FromRedis > before {
					took := time.Since(began)
					assert.True(t, took >= 500*time.Millisecond && took <= time.Second+10*time.Millisecond, "lived ", took, ": ")
					ends[took] = true
					break
				}
			}
		}
		assert.True(t, len(ends) > 5, "ends: ", len(ends), ": ")
	})
}

func TestSizesOfTheLocalTier(t *testing.T) {
	for _, n := range []int64{-1, 1, 2, tiers.MinMaxBytes - 1} {
		_, err := tiers.NewLocal(tiers.LocalOptions{MaxBytes: n})
		assert.Error(t, err)
	}
	c := open(t, cache.Options[int, int]{
		TTL: time.Minute, Local: newLocal(t, tiers.LocalOptions{MaxBytes: tiers.MinMaxBytes, EpochStripes: 1}),
		Load: func(_ context.Context, k int) (int, error) { return k, nil },
	})
	for k := range 5000 {
		is(t, k)(c.Get(t.Context(), k))
		is(t, k)(c.Get(t.Context(), k))
	}
}
