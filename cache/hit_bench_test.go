package cache_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/tiers"
)

// BenchmarkHit compares a whole Get on a local hit with bare ristrettos, which check nothing, without and with its TTL.
// One op is a round in which each has its turn, so that what disturbs the machine disturbs all alike; the ratios are of
// medians over the rounds. Run it with
//
//	go test ./cache -run '^$' -bench Hit -cpu 1,2 -benchtime 300x
func BenchmarkHit(b *testing.B) {
	for _, n := range []int{2_000, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			keys, reads := make([]string, n), zipf(n)
			for i := range keys {
				keys[i] = fmt.Sprintf("user:%08d", i)
			}
			ours := contestant{get: openSnowshed(b, keys)}
			plain := contestant{get: openRistretto(b, keys, 0)}
			ttl := contestant{get: openRistretto(b, keys, time.Hour)}
			b.ResetTimer()
			for b.Loop() {
				for _, c := range []*contestant{&ours, &plain, &ttl} {
					c.round(b, keys, reads)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ours.median(), "ns/snowshed")
			b.ReportMetric(plain.median(), "ns/ristretto")
			b.ReportMetric(ours.median()/plain.median(), "x/ristretto")
			b.ReportMetric(ours.median()/ttl.median(), "x/ristretto-ttl")
		})
	}
}

type contestant struct {
	get    func(string) bool
	rounds []float64
}

// round reads on as many threads as the benchmark runs on, and notes the nanoseconds that one call took one thread.
func (c *contestant) round(b *testing.B, keys []string, reads []int32) {
	b.Helper()
	const calls = 200_000
	var wg sync.WaitGroup
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		at := rand.IntN(len(reads) - calls)
		wg.Go(func() {
			for _, i := range reads[at : at+calls] {
				if !c.get(keys[i]) {
					b.Error("miss")
					return
				}
			}
		})
	}
	wg.Wait()
	c.rounds = append(c.rounds, float64(time.Since(began))/calls)
}

func (c *contestant) median() float64 {
	slices.Sort(c.rounds)
	return c.rounds[len(c.rounds)/2]
}

func openSnowshed(b *testing.B, keys []string) func(string) bool {
	b.Helper()
	local, err := tiers.NewLocal(tiers.LocalOptions{MaxBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	c, err := cache.New(cache.Options[string, *int]{
		Name: "bench", Local: local, TTL: time.Hour,
		Load: func(context.Context, string) (*int, error) { return new(int), nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.Cleanup(func() {
		c.Close(context.Background())
		local.Close(context.Background())
	})
	get := func(k string) bool {
		v, err := c.Get(ctx, k)
		return err == nil && v != nil
	}
	for _, k := range keys {
		get(k)
	}
	return get
}

func openRistretto(b *testing.B, keys []string, ttl time.Duration) func(string) bool {
	b.Helper()
	r, err := ristretto.NewCache(&ristretto.Config[string, *int]{NumCounters: 10_000_000, MaxCost: 1 << 30, BufferItems: 64})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.Close)
	for _, k := range keys {
		r.SetWithTTL(k, new(int), 1, ttl)
		r.Wait()
	}
	return func(k string) bool {
		v, ok := r.Get(k)
		return ok && v != nil
	}
}

// zipf returns reads of n keys whose frequencies follow Zipf's law with exponent 0.99, the way YCSB draws them.
func zipf(n int) []int32 {
	const theta, draws = 0.99, 1 << 20
	cum := make([]float64, n)
	sum := 0.0
	for i := range cum {
		sum += 1 / math.Pow(float64(i+1), theta)
		cum[i] = sum
	}
	r := rand.New(rand.NewPCG(1, 2))
	perm := r.Perm(n)
	reads := make([]int32, draws)
	for i := range reads {
		u := r.Float64() * sum
		lo, hi := 0, n-1
		for lo < hi {
			if m := (lo + hi) / 2; cum[m] < u {
				lo = m + 1
			} else {
				hi = m
			}
		}
		reads[i] = int32(perm[lo])
	}
	return reads
}
