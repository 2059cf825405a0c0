package protection_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// slowly acquires n permits in turn, lets d pass, and ends each.
func slowly(t *testing.T, p protection.Policy, n int, d time.Duration, o protection.Outcome) {
	t.Helper()
	for range n {
		permit := acquire(t, p)
		advance(d)
		assert.True(t, permit.Done(o))
	}
}

func TestBreakerSlowCallsTripIt(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		ratio      float64
		fast, slow int
		outcome    protection.Outcome
		trips      bool
	}{
		"half of them":       {0, 20, 20, protection.Success, false},
		"more than half":     {0, 20, 21, protection.Success, true},
		"too few calls":      {0, 0, 20, protection.Success, false},
		"all of them":        {1, 0, 21, protection.Success, true},
		"all but one":        {1, 1, 40, protection.Success, false},
		"a tenth":            {0.1, 90, 10, protection.Success, false},
		"more than a tenth":  {0.1, 90, 11, protection.Success, true},
		"cancelled are none": {0, 21, 40, protection.Ignored, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, protection.BreakerOptions{SlowAfter: 10 * ms, SlowRatio: c.ratio})
				slowly(t, b, c.fast, 10*ms, protection.Success) // not longer than
				slowly(t, b, c.slow, 11*ms, c.outcome)
				assert.Equal(t, b.State() == protection.Open, c.trips)
				if c.trips {
					assert.True(t, strings.HasSuffix(b.Snapshot().Reason, " calls took longer than 10ms within 10s"), b.Snapshot().Reason)
				}
			})
		})
	}
}

func TestBreakerSlowCallsAreNothingUnlessAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{Window: time.Hour})
		slowly(t, b, 30, time.Minute, protection.Success)
		assert.Equal(t, b.State(), protection.Closed)
		assert.Equal(t, b.Snapshot().Slow, 0)
	})
}

func TestBreakerCallsThatHangTripItBeforeTheyReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := newBreaker(t, protection.BreakerOptions{OverdueAfter: 800 * time.Millisecond, Observer: &r})
		slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 21})
		c := protection.Chain(slots, b)
		hung := make([]protection.Permit, 21)
		for i := range hung {
			hung[i] = acquire(t, c)
		}
		advance(800 * time.Millisecond)
		refused(t, c, protection.ErrFull) // none is past its limit, but they take all slots
		assert.Equal(t, b.Snapshot().Overdue, 0)
		advance(100 * time.Millisecond)
		assert.Equal(t, b.Snapshot().Overdue, 21)
		refused(t, c, protection.ErrOpen)
		assert.Equal(t, b.Snapshot().Reason, "21 of 21 calls failed or timed out within 10s, of which 21 are overdue")
		assert.Equal(t, r.told(), []observe.Kind{observe.BreakerOpened})
		for i := range hung {
			hung[i].Done(protection.Failure)
		}
		advance(4100 * time.Millisecond)
		advance(900 * time.Millisecond)
		calls(t, c, 1, protection.Success)
		assert.Equal(t, b.State(), protection.Closed)
		assert.Equal(t, b.Snapshot().Overdue, 0)
	})
}

func TestBreakerCallsInFlightAreNothingUnlessOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{OverdueAfter: time.Second})
		for range 200 {
			permits := make([]protection.Permit, 30)
			for i := range permits {
				permits[i] = acquire(t, b)
			}
			advance(990 * time.Millisecond)
			for i := range permits {
				permits[i].Done(protection.Success)
			}
			advance(77 * time.Millisecond)
			assert.Equal(t, b.Snapshot().Overdue, 0)
		}
		assert.Equal(t, b.State(), protection.Closed)
	})
}

func TestBreakerOverdueCallsAreCountedOverManySteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{OverdueAfter: 80 * time.Millisecond, MinCalls: 1000})
		hung := make([]protection.Permit, 100)
		for i := range hung {
			hung[i] = acquire(t, b)
			advance(10 * time.Millisecond)
		}
		assert.Equal(t, b.Snapshot().Overdue, 92) // the newest eight are young
		advance(time.Hour)
		assert.Equal(t, b.Snapshot().Overdue, 100)
		for i := range hung {
			assert.Equal(t, b.Snapshot().Overdue, uint64(100-i))
			hung[i].Done(protection.Success)
		}
		assert.Equal(t, b.Snapshot().Overdue, 0)
	})
}

func TestBreakerOverdueConcurrently_stress(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, protection.BreakerOptions{OverdueAfter: 8 * time.Millisecond, MinCalls: math.MaxInt})
	together(8, func(int) {
		for range 20_000 {
			permit := acquire(t, b)
			permit.Done(protection.Success)
		}
	})
	advance(20 * time.Millisecond)
	assert.Equal(t, b.Snapshot().Overdue, 0, "each that came has gone")
}

func TestBreakerCountsRefusalsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
		calls(t, b, 40, protection.Success)
		calls(t, b, 5, protection.Ignored)
		calls(t, b, 40, protection.Timeout)
		assert.Equal(t, b.State(), protection.Closed)
		s := b.Snapshot()
		assert.Equal(t, []uint64{s.Success, s.Failure, s.Timeout, s.Cancelled, s.Rejected}, []uint64{40, 0, 40, 5, 0})
		calls(t, b, 1, protection.Failure)
		for range 7 {
			refused(t, b, protection.ErrOpen)
			refused(t, protection.Chain(slots, b), protection.ErrOpen)
			assert.ErrorIs(t, b.Ready(), protection.ErrOpen) // asks, and counts nothing
		}
		s = b.Snapshot()
		assert.Equal(t, []uint64{s.Success, s.Failure, s.Timeout, s.Cancelled, s.Rejected}, []uint64{0, 0, 0, 0, 14})
		advance(5 * time.Second)
		calls(t, b, 1, protection.Success)
		assert.Equal(t, b.Snapshot(), protection.BreakerSnapshot{State: protection.Closed, Share: 100, Recoveries: 1})
	})
}
