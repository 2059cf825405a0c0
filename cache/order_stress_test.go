package cache_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/tiers"
)

// A value is the time at which its load started. Whoever begins to read after somebody else's answer is known gets no older
// one, whatever loads, invalidations, refreshes and evictions go on, with and without Redis. Answers that an invalidation
// of their key overtook are compared but not compared with: a load that it overtook may start after one that follows it.
func TestI4NeverFromNewerBackToOlder(t *testing.T) {
	for _, redis := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const keys = 6
			began := time.Now()
			o := cache.Options[int, int64]{
				TTL: 20 * time.Millisecond, StaleIfError: 40 * time.Millisecond, SoftTimeout: 2 * time.Millisecond, RetryBackoff: off,
				LoadTimeout: time.Hour, Local: newLocal(t, tiers.LocalOptions{MaxBytes: tiers.MinMaxBytes, EpochStripes: 4}),
				Load: func(ctx context.Context, _ int) (int64, error) {
					n := int64(time.Since(began))
					_ = rest(ctx, time.Duration(1+rand.IntN(15))*time.Millisecond)
					if rand.IntN(6) == 0 {
						return 0, errSource
					}
					return n, nil
				},
			}
			if redis {
				o.LocalTTL, o.Remote = 5*time.Millisecond, newWorld(t).Redis
			}
			c := open(t, o)
			var newest, begun, ended [keys]atomic.Int64
			var wg sync.WaitGroup
			for range 12 {
				wg.Go(func() {
					for range 150 {
						k := rand.IntN(keys)
						floor, before := newest[k].Load(), ended[k].Load()
						if rand.IntN(12) == 0 {
							begun[k].Add(1)
							_ = c.Invalidate(t.Context(), k)
							ended[k].Add(1)
						}
						got, err := read(t.Context(), c, k)
						if err == nil && got < floor {
							t.Errorf("redis=%v: key %d: %d after %d", redis, k, got, floor)
						}
						for err == nil && begun[k].Load() == before {
							seen := newest[k].Load()
							if seen >= got || newest[k].CompareAndSwap(seen, got) {
								break
							}
						}
						_ = rest(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
					}
				})
			}
			wg.Wait()
		})
	}
}

func read(ctx context.Context, c *cache.Cache[int, int64], k int) (int64, error) {
	switch rand.IntN(10) {
	case 0:
		return c.Refresh(ctx, k)
	case 1:
		got, err := c.Lookup(ctx, k, cache.Read{NoLoad: true})
		return got.Value, err
	case 2:
		got, err := c.Lookup(ctx, k, cache.Read{MaxAge: 10 * time.Millisecond})
		return got.Value, err
	}
	return c.Get(ctx, k)
}
