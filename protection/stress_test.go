package protection_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// together runs fn n times at once and waits for all.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

// raise makes m at least n.
func raise(m *atomic.Int64, n int64) {
	for seen := m.Load(); n > seen; seen = m.Load() {
		if m.CompareAndSwap(seen, n) {
			return
		}
	}
}

func TestOneOfAThousandGetsTheTrial_stress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{})
		for range 20 {
			advance(5 * time.Second)
			var admitted atomic.Int64
			together(1000, func(int) {
				if permit, err := b.Acquire(t.Context()); err == nil {
					admitted.Add(1)
					permit.Done(protection.Failure)
				}
			})
			assert.Equal(t, admitted.Load(), 1)
		}
	})
}

func TestBulkheadNeverExceedsItsBounds_stress(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 4, MaxQueue: 8, MaxWait: time.Millisecond})
	var running, most, queued atomic.Int64
	var ok, full, late, cancelled atomic.Int64
	together(64, func(i int) {
		take, weight := b.Acquire, int64(1)
		if i%2 == 1 {
			take, weight = func(ctx context.Context) (protection.Permit, error) { return b.AcquireN(ctx, 2) }, 2
		}
		for range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(2*time.Millisecond))))
			permit, err := take(ctx)
			raise(&queued, int64(b.Queued()))
			switch {
			case err == nil:
				raise(&most, running.Add(weight))
				runtime.Gosched()
				running.Add(-weight)
				permit.Done(protection.Success)
				permit.Done(protection.Failure)
				ok.Add(1)
			case errors.Is(err, protection.ErrFull):
				full.Add(1)
			case errors.Is(err, protection.ErrWaitTimeout):
				late.Add(1)
			case errors.Is(err, context.DeadlineExceeded):
				cancelled.Add(1)
			default:
				t.Error(err)
			}
			cancel()
		}
	})
	t.Logf("admitted %d, full %d, waited too long %d, ended %d", ok.Load(), full.Load(), late.Load(), cancelled.Load())
	assert.True(t, most.Load() <= 4 && queued.Load() <= 8, most.Load(), " running, ", queued.Load(), " queued")
	assert.True(t, ok.Load() > 0 && full.Load() > 0)
	assert.Equal(t, []int{b.InFlight(), b.Queued()}, []int{0, 0})
	for range 4 {
		acquire(t, b) // all slots came back
	}
	refused(t, b, protection.ErrWaitTimeout)
}

func TestTokenBucketNeverExceedsItsRate_stress(t *testing.T) {
	t.Parallel()
	b := newBucket(t, protection.TokenBucketOptions{Rate: 1e5, Burst: 100})
	start := time.Now()
	var admitted atomic.Int64
	together(16, func(int) {
		for range 5000 {
			if _, err := b.Acquire(t.Context()); err == nil {
				admitted.Add(1)
			}
		}
	})
	most := int64(time.Since(start).Seconds()*1e5) + 100
	assert.True(t, admitted.Load() <= most, admitted.Load(), " of at most ", most)
}

func TestChainLosesNoPermit_stress(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, protection.BreakerOptions{OpenFor: time.Microsecond, CloseUnder: time.Hour})
	slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 4})
	c := protection.Chain(slots, b)
	outcomes := []protection.Outcome{protection.Success, protection.Failure, protection.Timeout, protection.Ignored}
	together(16, func(int) {
		for range 2000 {
			if permit, err := c.Acquire(t.Context()); err == nil {
				permit.Done(outcomes[rand.IntN(4)])
				permit.Done(outcomes[rand.IntN(4)])
			}
		}
	})
	assert.Equal(t, slots.InFlight(), 0)
	assert.True(t, b.Recoveries() > 0)
}
