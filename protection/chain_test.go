package protection_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func TestChainGivesBackWhatItTookWhenAnInnerPolicyRefuses(t *testing.T) {
	t.Parallel()
	outer := newBulkhead(t, protection.BulkheadOptions{Name: "outer", MaxConcurrent: 5})
	inner := newBulkhead(t, protection.BulkheadOptions{Name: "inner", MaxConcurrent: 1})
	c := protection.Chain(outer, nil, inner)
	permit := acquire(t, c)
	assert.Equal(t, []int{outer.InFlight(), inner.InFlight()}, []int{1, 1})
	assert.Equal(t, refused(t, c, protection.ErrFull).Name, "inner")
	assert.Equal(t, outer.InFlight(), 1)
	assert.True(t, permit.Done(protection.Success))
	assert.True(t, !permit.Done(protection.Success))
	assert.Equal(t, []int{outer.InFlight(), inner.InFlight()}, []int{0, 0})
}

// A refusal by what comes after a breaker must free its trial and decide nothing.
func TestChainRefusalBehindABreakerFreesItsTrial_regression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{})
		full := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
		held := acquire(t, full)
		c := protection.Chain(b, full) // not the order that is advised
		advance(5 * time.Second)
		refused(t, c, protection.ErrFull)
		assert.Equal(t, b.State(), protection.Open)
		held.Done(protection.Success)
		calls(t, c, 1, protection.Success)
		assert.Equal(t, b.State(), protection.Closed)
	})
}

func TestChainLooksAtTheBreakerBeforeAnyQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{})
		bucket := newBucket(t, protection.TokenBucketOptions{Rate: 1, Burst: 1})
		queue := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
		held := acquire(t, queue)
		c := protection.Chain(bucket, protection.Chain(queue, b)) // the inner chain is looked through
		start := time.Now()
		for range 10 {
			refused(t, c, protection.ErrOpen)
		}
		assert.Equal(t, time.Since(start), 0)
		held.Done(protection.Success)
		advance(5 * time.Second)
		permit := acquire(t, c) // the refusals took no token
		refused(t, c, protection.ErrOpen)
		permit.Done(protection.Success)
		assert.Equal(t, b.State(), protection.Closed)
	})
}

func TestChainOfNothingAdmitsEverything(t *testing.T) {
	t.Parallel()
	calls(t, protection.Chain(), 1, protection.Success)
	calls(t, protection.Chain(nil, nil), 1, protection.Success)
}

func TestChainDoesNotShareTheCallersSlice(t *testing.T) {
	t.Parallel()
	policies := []protection.Policy{nil, newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})}
	kept := slices.Clone(policies)
	c := protection.Chain(policies...)
	assert.Equal(t, policies, kept, "untouched")
	policies[1] = nil
	acquire(t, c)
	refused(t, c, protection.ErrFull)
}

// panicking is a policy of a user's.
type panicking struct{}

func (panicking) Acquire(context.Context) (protection.Permit, error) { panic(errors.New("boom")) }

func TestChainPolicyThatPanicsLeavesNothingTaken(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	func() {
		defer func() { assert.True(t, recover() != nil) }()
		_, _ = protection.Chain(b, panicking{}).Acquire(t.Context())
	}()
	assert.Equal(t, b.InFlight(), 0)
}
