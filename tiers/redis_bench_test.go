package tiers_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/tiers"
)

// BenchmarkRedisGet reads values of 1 KB from a real server, through the whole tier and, for comparison, with the bare
// client: GET alone, and the PTTL and GET that the tier sends, in a pipeline per call and by the client's auto-pipelining.
// The goal is no loss against the pipeline at one caller and 0.9 of the auto-pipelining at 64 and 256.
func BenchmarkRedisGet(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{
		Addr: testutil.Redis(b), PoolSize: 300, ContextTimeoutEnabled: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer rdb.Close()
	benchmarkGet(b, rdb)
}

// BenchmarkRedisClusterGet is BenchmarkRedisGet on a cluster of three masters.
func BenchmarkRedisClusterGet(b *testing.B) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: testutil.RedisCluster(b), PoolSize: 300, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer rdb.Close()
	benchmarkGet(b, rdb)
}

func benchmarkGet(b *testing.B, rdb redis.UniversalClient) {
	b.Helper()
	const keys = 1000
	ctx := context.Background()
	r, err := tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: "bench", Timeout: 5 * time.Second, CompressAbove: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close(ctx)
	view, err := tiers.NewRedisView(r, tiers.RedisViewOptions[int, []byte]{Name: b.Name()[len("Benchmark"):]})
	if err != nil {
		b.Fatal(err)
	}
	raw := make([]string, keys)
	for i := range keys {
		s := tiers.Stored[[]byte]{Value: bytes.Repeat([]byte("x"), 1000), TTL: time.Hour, Life: time.Hour}
		if err := view.Set(ctx, i, s); err != nil {
			b.Fatal(err)
		}
		raw[i] = fmt.Sprintf("bench:%s:{%d}", b.Name()[len("Benchmark"):], i)
	}
	var auto *redis.AutoPipeliner
	switch c := rdb.(type) {
	case *redis.Client:
		auto, err = c.AsyncAutoPipeline()
	case *redis.ClusterClient:
		auto, err = c.AsyncAutoPipeline()
	}
	if err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 4, 16, 64, 256} {
		for _, way := range []struct {
			name string
			get  func(i int) error
		}{
			{"get", func(i int) error { return rdb.Get(ctx, raw[i]).Err() }},
			{"pair", func(i int) error {
				pipe := rdb.Pipeline()
				pipe.PTTL(ctx, raw[i])
				pipe.Get(ctx, raw[i])
				_, err := pipe.Exec(ctx)
				return err
			}},
			{"auto", func(i int) error {
				ttl := auto.PTTL(ctx, raw[i])
				get := auto.Get(ctx, raw[i])
				if err := ttl.Err(); err != nil {
					return err
				}
				return get.Err()
			}},
			{"tier", func(i int) error { _, err := view.Get(ctx, i); return err }},
		} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, way.name), func(b *testing.B) {
				b.ReportAllocs()
				var next atomic.Int64
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							if err := way.get(int(i % keys)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			})
		}
	}
}
