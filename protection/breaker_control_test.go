package protection_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

func TestBreakerForcedOpenUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		before := acquire(t, b)
		b.ForceOpen("maintenance", time.Now().Add(time.Hour))
		advance(time.Hour - 1)
		assert.Equal(t, refused(t, b, protection.ErrOpen).RetryAfter, time.Millisecond)
		before.Done(protection.Success)
		s := b.Snapshot()
		assert.Equal(t, s, protection.BreakerSnapshot{State: protection.Open, For: time.Hour - 1, Reason: "forced: maintenance", Rejected: 1})
		advance(1)
		calls(t, b, 1, protection.Success) // the trial
		assert.Equal(t, b.State(), protection.Closed)
		assert.Equal(t, b.Recoveries(), 1)
	})
}

func TestBreakerForcedOpenForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		b.ForceOpen("gone", time.Time{})
		advance(10_000 * time.Hour)
		assert.Equal(t, refused(t, b, protection.ErrOpen).RetryAfter, 0, "nobody knows")
		b.ForceOpen("back", time.Now())
		assert.NoError(t, b.Ready(), "a trial is due at once")
	})
}

func TestBreakerForcedClosedUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{})
		b.ForceClosed(time.Now().Add(time.Minute))
		assert.Equal(t, b.Recoveries(), 1)
		for range 59 {
			advance(time.Second)
			calls(t, b, 10, protection.Failure)
		}
		assert.Equal(t, b.Snapshot().Failure, 100, "it counts")
		assert.Equal(t, b.State(), protection.Closed, "but does not trip")
		advance(time.Second)
		calls(t, b, 1, protection.Failure)
		assert.Equal(t, b.State(), protection.Open, "until its time is over")
		b.ForceClosed(time.Time{})
		advance(10_000 * time.Hour)
		calls(t, b, 100, protection.Failure)
		assert.Equal(t, b.State(), protection.Closed)
	})
}

func TestBreakerForcesWhileOthersCall_stress(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, protection.BreakerOptions{OpenFor: time.Microsecond, MinCalls: 1, OverdueAfter: time.Millisecond, Ramp: time.Microsecond})
	together(8, func(i int) {
		for n := range 1000 {
			switch {
			case i == 0 && n%3 == 0:
				b.ForceOpen("test", time.Now())
			case i == 0:
				b.ForceClosed(time.Now())
			case i == 1 && n%10 == 0:
				if err := b.Update(protection.BreakerOptions{OpenFor: time.Microsecond, MinCalls: 1, Window: time.Duration(n+1) * time.Millisecond, OverdueAfter: time.Duration(n)}); err != nil {
					t.Error(err)
				}
			default:
				if permit, err := b.Acquire(t.Context()); err == nil {
					permit.Done(protection.Outcome(n%4 + 1))
				}
			}
			_ = b.Ready()
			_ = b.Snapshot()
		}
	})
	b.ForceClosed(time.Now())
	calls(t, b, 1, protection.Success)
}

func TestBreakerInShadowModeRefusesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := newBreaker(t, protection.BreakerOptions{Shadow: true, Observer: &r})
		c := protection.Chain(b)
		calls(t, b, 21, protection.Failure)
		assert.Equal(t, b.State(), protection.Open, "it decides")
		assert.NoError(t, b.Ready())
		calls(t, b, 50, protection.Failure)
		calls(t, c, 50, protection.Success)
		assert.Equal(t, b.Snapshot().Rejected, 100, "what would have been refused")
		assert.Equal(t, b.Snapshot().Failure+b.Snapshot().Success, 0, "and says nothing")
		advance(5 * time.Second)
		trial := acquire(t, c)
		assert.Equal(t, trial.Limit(), 0, "and is given no deadline")
		calls(t, c, 10, protection.Success)
		assert.Equal(t, b.State(), protection.HalfOpen)
		trial.Done(protection.Success)
		assert.Equal(t, b.State(), protection.Closed)
		assert.Equal(t, r.told(), []observe.Kind{observe.BreakerOpened, observe.BreakerClosed})
		for _, e := range r.seen {
			assert.Equal(t, e.Level, observe.Info)
			assert.True(t, strings.HasPrefix(e.Message, "shadow mode: circuit breaker "), e.Message)
		}
	})
}

func TestBreakerUpdateKeepsStateAndCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{MinCalls: 100})
		for range 10 {
			calls(t, b, 5, protection.Failure)
			advance(time.Second)
		}
		out := acquire(t, b)
		calls(t, b, 10, protection.Success)
		for _, window := range []time.Duration{time.Minute, 20 * time.Second, 13 * time.Second} {
			assert.NoError(t, b.Update(protection.BreakerOptions{MinCalls: 100, Window: window}))
			assert.Equal(t, b.Snapshot().Failure, 45, window)
			assert.Equal(t, b.Snapshot().Success, 10, window)
		}
		assert.NoError(t, b.Update(protection.BreakerOptions{MinCalls: 55, Name: "renamed"}))
		assert.Equal(t, b.State(), protection.Closed)
		out.Done(protection.Failure) // begun before, counted by the new rules
		assert.Equal(t, b.State(), protection.Open)
		assert.Equal(t, refused(t, b, protection.ErrOpen).Name, "renamed")
		assert.NoError(t, b.Update(protection.BreakerOptions{Name: "again", OpenFor: time.Hour}))
		assert.Equal(t, b.State(), protection.Open)
		assert.Equal(t, *refused(t, b, protection.ErrOpen), protection.RejectedError{
			Name: "again", Policy: "breaker", Reason: protection.ErrOpen, RetryAfter: 5 * time.Second,
		})
		advance(5 * time.Second)
		calls(t, b, 1, protection.Failure)
		assert.Equal(t, refused(t, b, protection.ErrOpen).RetryAfter, time.Hour)
	})
}

func TestBreakerUpdateThatCannotBeChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := protection.NewClock()
		defer clock.Close()
		b := newBreaker(t, protection.BreakerOptions{MinCalls: 1})
		for field, o := range map[string]protection.BreakerOptions{
			"MinCalls": {MinCalls: -1}, "Window": {Window: -1}, "Clock": {Clock: clock},
		} {
			err := b.Update(o)
			assert.Error(t, err, field)
			assert.True(t, strings.Contains(err.Error(), "BreakerOptions."+field+" is "), err)
		}
		calls(t, b, 2, protection.Failure)
		assert.Equal(t, b.State(), protection.Open)
	})
}

func TestBreakerUpdateOfWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := protection.BreakerOptions{OverdueAfter: time.Second}
		b := newBreaker(t, o)
		first := acquire(t, b)
		for _, limit := range []time.Duration{2 * time.Second, 0, time.Second} {
			o.OverdueAfter = limit
			assert.NoError(t, b.Update(o))
			second := acquire(t, b)
			first.Done(protection.Success)
			first = second
			advance(3 * time.Second)
			want := uint64(1)
			if limit == 0 {
				want = 0
			}
			assert.Equal(t, b.Snapshot().Overdue, want, limit)
		}
		first.Done(protection.Success)
		assert.Equal(t, b.Snapshot().Overdue, 0)
	})
}

// A breaker with a Clock keeps its times, to the 5 ms of the clock, and goes on when the clock has been closed.
func TestBreakerWithAClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := protection.NewClock()
		b := newBreaker(t, protection.BreakerOptions{Clock: clock})
		for range 3 {
			calls(t, b, 20, protection.Failure)
			advance(11 * time.Second)
			calls(t, b, 21, protection.Failure)
			assert.Equal(t, b.State(), protection.Open)
			advance(4990 * time.Millisecond)
			refused(t, b, protection.ErrOpen)
			advance(20 * time.Millisecond)
			slowly(t, b, 1, 250*time.Millisecond, protection.Success)
			assert.Equal(t, b.State(), protection.Open)
			advance(5 * time.Second)
			slowly(t, b, 1, 249*time.Millisecond, protection.Success)
			assert.Equal(t, b.State(), protection.Closed)
			clock.Close()
			clock.Close()
		}
	})
}

func TestBreakerClassifierDecides(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, protection.BreakerOptions{MinCalls: 1, Classify: func(error) protection.Outcome { return protection.Success }})
	for range 10 {
		_ = protection.Do(t.Context(), protection.Chain(b), func(context.Context) error { return context.DeadlineExceeded })
	}
	assert.Equal(t, b.Snapshot().Success, 10)
}
