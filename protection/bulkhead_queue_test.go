package protection_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func acquireN(t *testing.T, b *protection.Bulkhead, n int) protection.Permit {
	t.Helper()
	permit, err := b.AcquireN(t.Context(), n)
	assert.NoError(t, err)
	return permit
}

// waiters starts n callers one after another, which note their order of admission and then give their slot back.
func waiters(t *testing.T, b *protection.Bulkhead, first, n int, order *[]int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		go func() {
			permit, err := b.Acquire(t.Context())
			if err != nil {
				return
			}
			*order = append(*order, i)
			permit.Done(protection.Success)
		}()
		synctest.Wait()
	}
}

func TestBulkheadServesNewestFirstWhileTheQueueStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait time.Duration
		want []int
	}{
		"just before half of MaxWait": {499 * time.Millisecond, []int{0, 1, 2, 3, 4}},
		"at half of MaxWait":          {500 * time.Millisecond, []int{4, 3, 2, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 10})
				held := acquire(t, b)
				var order []int
				waiters(t, b, 0, 3, &order)
				advance(c.wait)
				waiters(t, b, 3, 2, &order)
				held.Done(protection.Success)
				synctest.Wait()
				assert.Equal(t, order, c.want)
				assert.Equal(t, []int{b.InFlight(), b.Queued()}, []int{0, 0})
			})
		})
	}
}

func TestBulkheadQueueThatHasDrainedIsInOrderAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 10})
		held := acquire(t, b)
		var order []int
		waiters(t, b, 0, 2, &order)
		advance(600 * time.Millisecond)
		held.Done(protection.Success)
		synctest.Wait()
		held = acquire(t, b)
		waiters(t, b, 2, 2, &order)
		held.Done(protection.Success)
		synctest.Wait()
		assert.Equal(t, order, []int{1, 0, 2, 3})
	})
}

// Under twice the load that it can bear, a queue in order of arrival makes everybody wait for as long as anybody may.
func TestBulkheadStandingQueueServesMostInGoodTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1000})
		var served, quick atomic.Int64
		for range 2000 { // 10 s of a call each 5 ms that takes 10 ms
			go func() {
				start := time.Now()
				permit, err := b.Acquire(t.Context())
				if err != nil {
					return
				}
				served.Add(1)
				if time.Since(start) < 100*time.Millisecond {
					quick.Add(1)
				}
				advance(10 * time.Millisecond)
				permit.Done(protection.Success)
			}()
			advance(5 * time.Millisecond)
		}
		advance(2 * time.Second)
		synctest.Wait()
		t.Logf("%d served, %d of them within 100 ms", served.Load(), quick.Load())
		assert.True(t, quick.Load() > served.Load()*8/10, quick.Load(), " of ", served.Load())
	})
}

func TestBulkheadWeights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 4})
		for _, n := range []int{0, -1, 5} {
			_, err := b.AcquireN(t.Context(), n)
			assert.Error(t, err, n)
			assert.True(t, !errors.Is(err, protection.ErrRejected), "no refusal: it can never be admitted")
		}
		heavy := acquireN(t, b, 3)
		assert.Equal(t, b.InFlight(), 3)
		_, err := b.AcquireN(t.Context(), 2)
		assert.ErrorIs(t, err, protection.ErrFull)
		light := acquireN(t, b, 1)
		assert.Equal(t, b.InFlight(), 4, "a refusal took nothing")
		heavy.Done(protection.Success)
		assert.Equal(t, b.InFlight(), 1)
		light.Done(protection.Success)
		acquireN(t, b, 4)
	})
}

// See golang/go#37852: whoever a heavy waiter held up must not wait on when it leaves.
func TestBulkheadCancelledHeavyWaiterLetsTheLightOneGo_regression(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancel", "MaxWait"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 2, MaxQueue: 2})
				acquire(t, b)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					_, err := b.AcquireN(ctx, 2)
					assert.Error(t, err)
				}()
				synctest.Wait()
				advance(400 * time.Millisecond)
				admitted := false
				go func() {
					acquire(t, b)
					admitted = true
				}()
				synctest.Wait()
				assert.True(t, !admitted, "nobody overtakes")
				assert.Equal(t, b.Queued(), 2)
				if how == "cancel" {
					cancel()
				} else {
					advance(600 * time.Millisecond)
				}
				synctest.Wait()
				assert.True(t, admitted, "without waiting for anything")
				assert.Equal(t, []int{b.InFlight(), b.Queued()}, []int{2, 0})
			})
		})
	}
}

func TestBulkheadSlotThatComesWithTheCancelGoesToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 2})
			held := acquire(t, b)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				permit, err := b.Acquire(ctx)
				if err != nil {
					assert.Equal(t, err, context.Canceled)
				}
				assert.Equal(t, permit.Done(protection.Success), err == nil) // it was quicker than the cancel
			}()
			synctest.Wait()
			next := make(chan protection.Permit)
			go func() { next <- acquire(t, b) }()
			synctest.Wait()
			held.Done(protection.Success) // the first has the slot, and most likely has not woken up yet
			cancel()
			permit := <-next
			permit.Done(protection.Success)
			synctest.Wait()
			assert.Equal(t, []int{b.InFlight(), b.Queued()}, []int{0, 0})
		}
	})
}

func TestBulkheadRefusalSaysWhenTheQueueHasRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
		acquire(t, b)
		var order []int
		waiters(t, b, 0, 1, &order)
		advance(300 * time.Millisecond)
		assert.Equal(t, refused(t, b, protection.ErrFull).RetryAfter, 700*time.Millisecond)
		advance(700 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, b.Queued(), 0)
		assert.Equal(t, b.Rejected(), uint64(2), "the one that waited in vain too")
	})
}

func TestBulkheadResize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 2, MaxQueue: 5})
		for _, n := range []int{0, -1} {
			assert.Error(t, b.Resize(n), n)
		}
		first, second := acquire(t, b), acquire(t, b)
		var order []int
		waiters(t, b, 0, 2, &order)
		assert.NoError(t, b.Resize(3))
		synctest.Wait()
		assert.Equal(t, order, []int{0, 1}, "at once")
		assert.NoError(t, b.Resize(1))
		assert.Equal(t, []int{b.InFlight(), b.Size()}, []int{2, 1}, "what runs goes on")
		waiters(t, b, 2, 1, &order)
		first.Done(protection.Success)
		synctest.Wait()
		assert.Equal(t, len(order), 2, "still as many as there may be")
		second.Done(protection.Success)
		synctest.Wait()
		assert.Equal(t, order, []int{0, 1, 2})
	})
}

func TestBulkheadResizeRefusesWhoNoLongerFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 3, MaxQueue: 2})
		acquire(t, b)
		var heavy error
		go func() { _, heavy = b.AcquireN(t.Context(), 3) }()
		synctest.Wait()
		light := false
		go func() { acquire(t, b); light = true }()
		synctest.Wait()
		assert.NoError(t, b.Resize(2))
		synctest.Wait()
		assert.ErrorIs(t, heavy, protection.ErrFull)
		assert.True(t, light)
	})
}

func TestBulkheadAdmissionAllocatesNothing(t *testing.T) {
	b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
	ctx := t.Context()
	assert.Equal(t, testing.AllocsPerRun(1000, func() {
		permit, _ := b.Acquire(ctx)
		permit.Done(protection.Success)
	}), 0)
}

func BenchmarkBulkhead(b *testing.B) {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{MaxConcurrent: 1000})
	assert.NoError(b, err)
	ctx := b.Context()
	b.Run("admit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			permit, _ := bulkhead.Acquire(ctx)
			permit.Done(protection.Success)
		}
	})
	b.Run("admit/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				permit, _ := bulkhead.Acquire(ctx)
				permit.Done(protection.Success)
			}
		})
	})
	full, err := protection.NewBulkhead(protection.BulkheadOptions{MaxConcurrent: 1})
	assert.NoError(b, err)
	_, err = full.Acquire(ctx)
	assert.NoError(b, err)
	b.Run("reject", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = full.Acquire(ctx)
		}
	})
}
