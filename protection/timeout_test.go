package protection_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func executionTimeout(t *testing.T, d time.Duration) protection.Policy {
	t.Helper()
	p, err := protection.NewExecutionTimeout(d)
	assert.NoError(t, err)
	return p
}

func TestExecutionTimeoutEndsTheCtxAndCountsAsATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		c := protection.Chain(executionTimeout(t, time.Minute), executionTimeout(t, 50*time.Millisecond), b)
		for range 21 {
			start := time.Now()
			v, err := protection.DoValue(t.Context(), c, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				assert.Equal(t, context.Cause(ctx), protection.ErrExecutionTimeout)
				return 7, nil // that it comes back after all makes it no success
			})
			assert.Equal(t, time.Since(start), 50*time.Millisecond, "the shorter one")
			assert.Equal(t, v, 7)
			assert.NoError(t, err)
		}
		assert.Equal(t, b.State(), protection.Open)
	})
}

func TestExecutionTimeoutDoesNotCountTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
		held := acquire(t, slots)
		time.AfterFunc(80*time.Millisecond, func() { held.Done(protection.Success) })
		c := protection.Chain(executionTimeout(t, 50*time.Millisecond), slots)
		assert.NoError(t, protection.Do(t.Context(), c, func(ctx context.Context) error {
			advance(49 * time.Millisecond)
			return ctx.Err()
		}))
	})
}

func TestExecutionTimeoutRefusesADeadContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := executionTimeout(t, time.Second).Acquire(ctx)
	assert.Equal(t, err, context.Canceled)
}

func TestWaitTimeoutBoundsAllThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer := newBulkhead(t, protection.BulkheadOptions{Name: "outer", MaxConcurrent: 2, MaxQueue: 1, MaxWait: time.Minute})
		inner := newBulkhead(t, protection.BulkheadOptions{Name: "inner", MaxConcurrent: 1, MaxQueue: 1, MaxWait: time.Minute})
		p, err := protection.NewWaitTimeout("both", protection.Chain(outer, inner), 100*time.Millisecond)
		assert.NoError(t, err)
		held := acquire(t, p)
		start := time.Now()
		assert.Equal(t, *refused(t, p, protection.ErrWaitTimeout), protection.RejectedError{
			Name: "both", Policy: "wait timeout", Reason: protection.ErrWaitTimeout,
		})
		assert.Equal(t, time.Since(start), 100*time.Millisecond)
		assert.Equal(t, []int{outer.InFlight(), inner.Queued()}, []int{1, 0}, "nothing is left")

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = p.Acquire(ctx)
		assert.Equal(t, err, context.DeadlineExceeded, "the caller's own end is no refusal")
		held.Done(protection.Success)
		assert.NoError(t, protection.Do(t.Context(), p, func(ctx context.Context) error {
			_, has := ctx.Deadline()
			assert.True(t, !has, "the work has its own time")
			return nil
		}))
	})
}

func TestWaitTimeoutPassesOnRefusalsAndForesight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{Name: "db"})
		p, err := protection.NewWaitTimeout("wait", b, time.Second)
		assert.NoError(t, err)
		assert.Equal(t, refused(t, p, protection.ErrOpen).Name, "db")
		slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
		acquire(t, slots)
		refused(t, protection.Chain(slots, p), protection.ErrOpen) // seen without queueing
	})
}

func TestTimeoutsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, -1} {
		_, err := protection.NewExecutionTimeout(d)
		named(t, err, "d is ")
		_, err = protection.NewWaitTimeout("x", protection.Chain(), d)
		named(t, err, "d is ")
	}
	_, err := protection.NewWaitTimeout("x", nil, time.Second)
	named(t, err, "p is nil")
	assert.True(t, !errors.Is(err, protection.ErrRejected))
}
