package protection_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func newBulkhead(t *testing.T, o protection.BulkheadOptions) *protection.Bulkhead {
	t.Helper()
	b, err := protection.NewBulkhead(o)
	assert.NoError(t, err)
	return b
}

func TestBulkheadWithoutQueueRefusesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{Name: "db", MaxConcurrent: 2})
		first := acquire(t, b)
		acquire(t, b)
		start := time.Now()
		got := refused(t, b, protection.ErrFull)
		assert.Equal(t, *got, protection.RejectedError{Name: "db", Policy: "bulkhead", Reason: protection.ErrFull})
		assert.Equal(t, time.Since(start), 0)
		assert.Equal(t, b.InFlight(), 2)
		assert.True(t, first.Done(protection.Failure))
		assert.True(t, !first.Done(protection.Success))
		assert.Equal(t, b.InFlight(), 1, "one Done is one release")
		acquire(t, b)
		refused(t, b, protection.ErrFull)
	})
}

func TestBulkheadQueueIsBoundedInLengthAndTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 2})
		acquire(t, b)
		start := time.Now()
		for range 2 {
			go func() {
				refused(t, b, protection.ErrWaitTimeout)
				assert.Equal(t, time.Since(start), time.Second)
			}()
		}
		synctest.Wait()
		assert.Equal(t, b.Queued(), 2)
		refused(t, b, protection.ErrFull)
		assert.Equal(t, time.Since(start), 0)
		advance(time.Second)
		synctest.Wait()
		assert.Equal(t, b.Queued(), 0)
		assert.Equal(t, b.InFlight(), 1)
	})
}

func TestBulkheadServesWaitersInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 3})
		held := acquire(t, b)
		var order []int
		for i := range 3 {
			go func() {
				permit := acquire(t, b)
				order = append(order, i)
				permit.Done(protection.Success)
			}()
			synctest.Wait()
		}
		held.Done(protection.Success)
		synctest.Wait()
		assert.Equal(t, order, []int{0, 1, 2})
		assert.Equal(t, b.InFlight(), 0)
	})
}

func TestBulkheadContextThatEndsInTheQueue(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		with func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(300*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 300*time.Millisecond)
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
				held := acquire(t, b)
				ctx, cancel := end.with(t.Context())
				defer cancel()
				start := time.Now()
				_, err := b.Acquire(ctx)
				assert.Equal(t, err, end.want, "bare, not a refusal")
				assert.Equal(t, time.Since(start), 300*time.Millisecond)
				assert.Equal(t, b.Queued(), 0)
				held.Done(protection.Success)
				acquire(t, b) // nobody took the slot for the one who left
			})
		})
	}
}

// See golang/go#63615: a semaphore may admit a caller whose ctx has ended.
func TestBulkheadDeadContextTakesNoFreeSlot_regression(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, err := b.Acquire(ctx)
		assert.Equal(t, err, context.Canceled)
	}
	assert.Equal(t, b.InFlight(), 0)
	acquire(t, b)
}

// See resilience4j#332 and #263: a call that is cancelled, cut short or ended twice must give back what it holds, once.
func TestBulkheadEachCallReleasesOnce_regression(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, t *testing.T, cancel context.CancelFunc, p protection.Policy){
		"cancelled before": func(ctx context.Context, t *testing.T, cancel context.CancelFunc, p protection.Policy) {
			t.Helper()
			cancel()
			_, err := p.Acquire(ctx)
			assert.Equal(t, err, context.Canceled)
		},
		"cancelled in the queue": func(ctx context.Context, t *testing.T, cancel context.CancelFunc, p protection.Policy) {
			t.Helper()
			second, err := p.Acquire(ctx)
			assert.NoError(t, err)
			time.AfterFunc(10*time.Millisecond, cancel)
			_, err = p.Acquire(ctx)
			assert.Equal(t, err, context.Canceled)
			second.Done(protection.Success)
		},
		"cancelled while it runs": func(ctx context.Context, t *testing.T, cancel context.CancelFunc, p protection.Policy) {
			t.Helper()
			assert.ErrorIs(t, protection.Do(ctx, p, func(ctx context.Context) error { cancel(); return ctx.Err() }), context.Canceled)
		},
		"done twice": func(ctx context.Context, t *testing.T, _ context.CancelFunc, p protection.Policy) {
			t.Helper()
			permit, err := p.Acquire(ctx)
			assert.NoError(t, err)
			assert.True(t, permit.Done(protection.Success))
			assert.True(t, !permit.Done(protection.Failure))
		},
		"done after the execution timeout": func(ctx context.Context, t *testing.T, _ context.CancelFunc, p protection.Policy) {
			t.Helper()
			permit, err := p.Acquire(ctx)
			assert.NoError(t, err)
			advance(2 * permit.Limit())
			assert.True(t, permit.Done(protection.Timeout))
			assert.True(t, !permit.Done(protection.Success))
		},
		"returns after the execution timeout": func(ctx context.Context, t *testing.T, _ context.CancelFunc, p protection.Policy) {
			t.Helper()
			assert.NoError(t, protection.Do(ctx, p, func(context.Context) error { advance(time.Minute); return nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limit, err := protection.NewExecutionTimeout(time.Second)
				assert.NoError(t, err)
				b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 2, MaxQueue: 1})
				other := acquire(t, b) // a release too many would show on it
				p := protection.Chain(limit, b)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				call(ctx, t, cancel, p)
				assert.Equal(t, b.InFlight(), 1)
				assert.Equal(t, b.Queued(), 0)
				other.Done(protection.Success)
				assert.Equal(t, b.InFlight(), 0)
			})
		})
	}
}
