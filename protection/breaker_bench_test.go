//go:build unix

package protection_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/protection"
)

// benchBreaker returns a breaker with a Clock, as a hot path has it.
func benchBreaker(b *testing.B, o protection.BreakerOptions) *protection.Breaker {
	b.Helper()
	o.Clock = protection.NewClock()
	b.Cleanup(o.Clock.Close)
	breaker, err := protection.NewBreaker(o)
	if err != nil {
		b.Fatal(err)
	}
	return breaker
}

// spread runs fn b.N times in all, on n goroutines. Besides the time that passes it reports the time on processors, which
// counts on a machine that others use too.
func spread(b *testing.B, n int, fn func()) {
	b.Helper()
	b.ReportAllocs()
	var wg sync.WaitGroup
	b.ResetTimer()
	before := onProcessors(b)
	for i := range n {
		share := b.N / n
		if i < b.N%n {
			share++
		}
		wg.Go(func() {
			for range share {
				fn()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(onProcessors(b)-before)/float64(b.N), "cpu-ns/op")
}

func onProcessors(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// BenchmarkBareRing is what an admitted call is to be compared with: one load of a coarse clock and one addition to a
// counter that all goroutines share.
func BenchmarkBareRing(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			var clock atomic.Int64
			var ring [10]struct {
				n atomic.Uint64
				_ [56]byte
			}
			spread(b, n, func() { ring[clock.Load()/1e9%10].n.Add(1) })
		})
	}
}

func BenchmarkBreakerAdmitted(b *testing.B) {
	ctx := context.Background()
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("two-step/goroutines=%d", n), func(b *testing.B) {
			breaker := benchBreaker(b, protection.BreakerOptions{})
			spread(b, n, func() {
				if permit, err := breaker.Acquire(ctx); err == nil {
					permit.Done(protection.Success)
				}
			})
		})
	}
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("do/goroutines=%d", n), func(b *testing.B) {
			breaker := benchBreaker(b, protection.BreakerOptions{})
			spread(b, n, func() { _ = protection.Do(ctx, breaker, func(context.Context) error { return nil }) })
		})
	}
	b.Run("two-step/exact clock", func(b *testing.B) {
		breaker, err := protection.NewBreaker(protection.BreakerOptions{})
		if err != nil {
			b.Fatal(err)
		}
		spread(b, 1, func() {
			if permit, err := breaker.Acquire(ctx); err == nil {
				permit.Done(protection.Success)
			}
		})
	})
	b.Run("two-step/overdue watched", func(b *testing.B) {
		breaker := benchBreaker(b, protection.BreakerOptions{OverdueAfter: time.Second})
		spread(b, 1, func() {
			if permit, err := breaker.Acquire(ctx); err == nil {
				permit.Done(protection.Success)
			}
		})
	})
}

// BenchmarkBreakerFailed is the dear path: each failure looks whether it was one too many.
func BenchmarkBreakerFailed(b *testing.B) {
	ctx := context.Background()
	breaker := benchBreaker(b, protection.BreakerOptions{MinCalls: math.MaxInt})
	spread(b, 1, func() {
		if permit, err := breaker.Acquire(ctx); err == nil {
			permit.Done(protection.Failure)
		}
	})
}

func BenchmarkBreakerRefused(b *testing.B) {
	ctx := context.Background()
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			breaker := benchBreaker(b, protection.BreakerOptions{})
			breaker.ForceOpen("benchmark", time.Now().Add(time.Hour))
			spread(b, n, func() {
				if _, err := breaker.Acquire(ctx); err == nil {
					b.Error("admitted")
				}
			})
		})
	}
}

func BenchmarkBreakerSnapshot(b *testing.B) {
	breaker := benchBreaker(b, protection.BreakerOptions{})
	spread(b, 1, func() { _ = breaker.Snapshot() })
}

func BenchmarkChainAdmitted(b *testing.B) {
	ctx := context.Background()
	clock := protection.NewClock()
	defer clock.Close()
	bucket, err1 := protection.NewTokenBucket(protection.TokenBucketOptions{Rate: math.Inf(1), Clock: clock})
	bulkhead, err2 := protection.NewBulkhead(protection.BulkheadOptions{MaxConcurrent: 1000})
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]protection.Policy{
		"breaker":                 protection.Chain(benchBreaker(b, protection.BreakerOptions{})),
		"bucket+bulkhead+breaker": protection.Chain(bucket, bulkhead, benchBreaker(b, protection.BreakerOptions{})),
	} {
		b.Run(name, func(b *testing.B) {
			spread(b, 1, func() {
				if permit, err := c.Acquire(ctx); err == nil {
					permit.Done(protection.Success)
				}
			})
		})
	}
}
