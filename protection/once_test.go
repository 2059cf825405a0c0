package protection_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// A guarded loader on a guarded connection pool of one must not wait for itself.
func TestOncePermitTravelsToInnerGates(t *testing.T) {
	t.Parallel()
	slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	other := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	guard, otherGuard := protection.Once(slots), protection.Once(other)
	depth := 0
	var descend func(ctx context.Context) error
	descend = func(ctx context.Context) error {
		assert.Equal(t, []int{slots.InFlight(), other.InFlight()}, []int{1, 1})
		if depth++; depth == 5 {
			return nil
		}
		return protection.Do(ctx, protection.Chain(guard, otherGuard), descend)
	}
	err := protection.Do(t.Context(), guard, func(ctx context.Context) error { return protection.Do(ctx, otherGuard, descend) })
	assert.NoError(t, err)
	assert.Equal(t, depth, 5)
	assert.Equal(t, []int{slots.InFlight(), other.InFlight()}, []int{0, 0})
}

func TestOnceAdmitsNobodyWhoseOuterPermitHasEnded(t *testing.T) {
	t.Parallel()
	slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	guard := protection.Once(slots)
	var kept context.Context
	assert.NoError(t, protection.Do(t.Context(), guard, func(ctx context.Context) error {
		kept = context.WithoutCancel(ctx) //nolint:fatcontext // to see what it is worth afterwards
		assert.True(t, protection.Admitted(ctx, guard))
		return nil
	}))
	assert.True(t, !protection.Admitted(kept, guard))
	permit, err := guard.Acquire(kept)
	assert.NoError(t, err)
	assert.Equal(t, slots.InFlight(), 1, "it was asked")
	permit.Done(protection.Success)
}

func TestOnceInTwoSteps(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	permit := acquire(t, b)
	ctx, end := protection.WithPermit(t.Context(), b)
	assert.True(t, protection.Admitted(ctx, b))
	assert.True(t, !protection.Admitted(t.Context(), b))
	assert.True(t, !protection.Admitted(ctx, nil))
	assert.True(t, !protection.Admitted(ctx, newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})), "of another")
	permit.Done(protection.Success)
	end()
	assert.True(t, !protection.Admitted(ctx, b))
}

// incomparable is a policy of a user's that cannot be told from another.
type incomparable struct{ _ []int }

func (incomparable) Acquire(context.Context) (protection.Permit, error) {
	return protection.NewPermit(nil), nil
}

func TestOnceOfPoliciesThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	ctx, end := protection.WithPermit(t.Context(), incomparable{})
	defer end()
	assert.True(t, !protection.Admitted(ctx, incomparable{}))
	guard := protection.Once(incomparable{})
	assert.NoError(t, protection.Do(ctx, guard, func(ctx context.Context) error {
		assert.True(t, protection.Admitted(ctx, guard), "by the guard itself")
		return nil
	}))
	assert.Equal(t, protection.Once(nil), nil)
}

// The look ahead of a chain must not refuse work that is admitted already.
func TestOnceIsLookedThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{})
		guard := protection.Chain(protection.Once(b))
		once := protection.Once(guard)
		refused(t, once, protection.ErrOpen)
		assert.Equal(t, b.Snapshot().Rejected, 1)
		assert.ErrorIs(t, once.(interface{ Ready() error }).Ready(), protection.ErrOpen)
		advance(5 * time.Second)
		inner := protection.Chain(once)
		err := protection.Do(t.Context(), once, func(ctx context.Context) error {
			assert.Equal(t, b.State(), protection.HalfOpen, "this is the trial")
			err := protection.Do(ctx, inner, func(context.Context) error { return nil })
			assert.Equal(t, b.State(), protection.HalfOpen, "the inner work decides nothing")
			dead, cancel := context.WithCancel(ctx)
			cancel()
			assert.ErrorIs(t, protection.Do(dead, inner, func(context.Context) error { return nil }), context.Canceled)
			return err
		})
		assert.NoError(t, err)
		assert.Equal(t, b.State(), protection.Closed)
		assert.Equal(t, once.(interface{ Recoveries() uint64 }).Recoveries(), 1)
	})
}
