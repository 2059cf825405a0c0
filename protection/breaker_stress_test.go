package protection_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// See Hystrix#1861: cancellations around a trial must not keep a good one from closing the breaker.
func TestGoodTrialClosesWhileAHundredCancel_stress(t *testing.T) {
	t.Parallel()
	rounds := protection.Share(10_000)
	if testing.Short() {
		rounds = 500
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		for range rounds {
			late := make([]protection.Permit, 100)
			for i := range late {
				late[i] = acquire(t, b)
			}
			calls(t, b, 21, protection.Failure)
			advance(5 * time.Second)
			together(5, func(i int) {
				if i == 0 {
					calls(t, b, 1, protection.Success)
					return
				}
				for n := range 25 {
					late[(i-1)*25+n].Done(protection.Ignored)
				}
			})
			assert.Equal(t, b.State(), protection.Closed)
		}
		assert.Equal(t, b.Recoveries(), uint64(rounds))
	})
}

// With hundreds of calls at once that come and go as they like, the counts add up and the breaker always finds its way
// back once the dependency is well.
func TestBreakerFindsItsWayBack_stress(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, protection.BreakerOptions{
		Window: 100 * time.Millisecond, OpenFor: time.Millisecond, CloseUnder: time.Second,
		Ramp: 3 * time.Millisecond, OverdueAfter: 10 * time.Millisecond, SlowAfter: time.Second,
	})
	outcomes := []protection.Outcome{protection.Failure, protection.Timeout, protection.Ignored, protection.Success}
	for range 5 {
		together(16, func(i int) {
			for n := range 500 {
				if permit, err := b.Acquire(t.Context()); err == nil {
					permit.Done(outcomes[(i+n)%4])
				}
			}
		})
		assert.Equal(t, b.Snapshot().Trials, 0)
		assert.Eventually(t, 10*time.Second, func() bool {
			_ = protection.Do(t.Context(), b, func(context.Context) error { return nil })
			return b.Snapshot().Share == 100
		})
	}
}
