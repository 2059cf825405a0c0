package cache_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/tiers"
)

// Readers and writers of one process, with a Redis in between: no reader gets less than an invalidation has acknowledged
// before, nor less than it got before.
func TestI4OrderHoldsThroughRedis(t *testing.T) {
	const keys, goroutines = 40, 12
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 32})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	remote, err := tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: "test", Timeout: time.Minute})
	assert.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remote.Close(context.Background())) })
	var written, acknowledged [keys]atomic.Int64
	c := open(t, cache.Options[int, int64]{
		Local:  newLocal(t, tiers.LocalOptions{MaxBytes: 64 << 10, EpochStripes: 64}),
		Remote: remote, TTL: time.Minute,
		Load: func(_ context.Context, k int) (int64, error) {
			v := written[k].Load()
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			return v, nil
		},
	})
	span := 2 * time.Second
	if testing.Short() {
		span /= 4
	}
	until := time.Now().Add(span)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			var seen [keys]int64
			for time.Now().Before(until) && !t.Failed() {
				k := rand.IntN(1 + rand.IntN(keys))
				if g < 4 && rand.IntN(5) == 0 {
					v := written[k].Add(1)
					if err := c.Invalidate(t.Context(), k); err != nil {
						t.Error(err)
					}
					for old := acknowledged[k].Load(); old < v && !acknowledged[k].CompareAndSwap(old, v); {
						old = acknowledged[k].Load()
					}
					continue
				}
				least := max(acknowledged[k].Load(), seen[k])
				v, err := c.Get(t.Context(), k)
				if err != nil || v < least {
					t.Errorf("got %d and %v, not less than %d", v, err, least)
				}
				seen[k] = v
			}
		})
	}
	wg.Wait()
}
