package protection_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func newBreaker(t *testing.T, o protection.BreakerOptions) *protection.Breaker {
	t.Helper()
	b, err := protection.NewBreaker(o)
	assert.NoError(t, err)
	return b
}

func acquire(t *testing.T, p protection.Policy) protection.Permit {
	t.Helper()
	permit, err := p.Acquire(t.Context())
	assert.NoError(t, err)
	return permit
}

// refused checks that p refuses, and returns the refusal.
func refused(t *testing.T, p protection.Policy, reason error) *protection.RejectedError {
	t.Helper()
	permit, err := p.Acquire(t.Context())
	assert.ErrorIs(t, err, protection.ErrRejected)
	assert.ErrorIs(t, err, reason)
	assert.True(t, !permit.Done(protection.Success), "the permit of a refusal holds nothing")
	return assert.ErrorAs[*protection.RejectedError](t, err)
}

func calls(t *testing.T, p protection.Policy, n int, o protection.Outcome) {
	t.Helper()
	for range n {
		permit := acquire(t, p)
		assert.True(t, permit.Done(o))
	}
}

// tripped returns a breaker that has just opened.
func tripped(t *testing.T, o protection.BreakerOptions) *protection.Breaker {
	t.Helper()
	b := newBreaker(t, o)
	calls(t, b, max(o.MinCalls, 20)+1, protection.Failure)
	assert.Equal(t, b.State(), protection.Open)
	return b
}

func TestBreakerTripsByTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o                             protection.BreakerOptions
		success, ignored, timeout, ko int
		trips                         bool
	}{
		{ko: 10, success: 10},
		{ko: 21, success: 21},              // exactly half is not more than half
		{ko: 22, success: 21, trips: true}, // one more is
		{ko: 20},                           // not more than MinCalls
		{ko: 21, trips: true},
		{timeout: 21, trips: true},
		{timeout: 11, ko: 11, success: 21, trips: true},
		{ko: 15, ignored: 1000},              // ignored calls do not fill the window
		{ko: 21, ignored: 1000, trips: true}, // nor dilute it
		{o: protection.BreakerOptions{FailureRatio: 1}, ko: 100, success: 1},
		{o: protection.BreakerOptions{FailureRatio: 1}, ko: 21, trips: true},
		{o: protection.BreakerOptions{MinCalls: 1}, ko: 1},
		{o: protection.BreakerOptions{MinCalls: 1}, ko: 2, trips: true},
	} {
		b := newBreaker(t, c.o)
		calls(t, b, c.success, protection.Success)
		calls(t, b, c.ignored, protection.Ignored)
		calls(t, b, c.timeout, protection.Timeout)
		calls(t, b, c.ko, protection.Failure)
		assert.Equal(t, b.State() == protection.Open, c.trips, fmt.Sprintf("%+v", c))
	}
}

func TestBreakerTripsAtTheConfiguredRatio(t *testing.T) {
	t.Parallel()
	for percent := 5; percent <= 100; percent += 5 {
		o := protection.BreakerOptions{FailureRatio: float64(percent) / 100, MinCalls: 99}
		b := newBreaker(t, o)
		calls(t, b, 100-percent, protection.Success)
		calls(t, b, percent, protection.Failure)
		assert.Equal(t, b.State() == protection.Open, percent == 100, fmt.Sprint(percent, " % of 100"))
		if percent == 100 {
			continue
		}
		b = newBreaker(t, o)
		calls(t, b, 99-percent, protection.Success)
		calls(t, b, percent+1, protection.Failure)
		assert.Equal(t, b.State(), protection.Open, percent+1, " % of 100")
	}
}

func TestBreakerForgetsWhatLeftTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		calls(t, b, 20, protection.Failure)
		advance(10 * time.Second)
		calls(t, b, 20, protection.Failure)
		assert.Equal(t, b.State(), protection.Closed, "20 old and 20 new failures are never 21")
		advance(9 * time.Second)
		calls(t, b, 1, protection.Failure)
		assert.Equal(t, b.State(), protection.Open, "21 within the window")
	})
}

func TestBreakerCountsSlowFailuresWhenTheyEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		for range 21 {
			permit := acquire(t, b)
			time.AfterFunc(12*time.Second, func() { permit.Done(protection.Timeout) }) // longer than the window
		}
		advance(13 * time.Second)
		assert.Equal(t, b.State(), protection.Open)
	})
}

func TestBreakerOpenRefusesAndSaysForHowLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{Name: "db"})
		advance(2 * time.Second)
		want := protection.RejectedError{Name: "db", Policy: "breaker", Reason: protection.ErrOpen, RetryAfter: 3 * time.Second}
		assert.Equal(t, *refused(t, b, protection.ErrOpen), want)
		assert.Equal(t, b.Ready(), error(&want), "Ready says what Acquire would")
		advance(3 * time.Second)
		for range 3 {
			assert.NoError(t, b.Ready(), "looking takes no trial")
		}
		acquire(t, b)
		assert.Equal(t, b.State(), protection.HalfOpen)
		assert.Equal(t, refused(t, b, protection.ErrOpen).RetryAfter, 5*time.Second)
	})
}

func TestBreakerTrialDecides(t *testing.T) {
	t.Parallel()
	const open, closed = protection.Open, protection.Closed
	for name, c := range map[string]struct {
		outcome protection.Outcome
		took    time.Duration
		state   protection.State
		next    bool // another trial may start at once
	}{
		"quick success":     {protection.Success, 249 * time.Millisecond, closed, true},
		"slow success":      {protection.Success, 250 * time.Millisecond, open, false},
		"failure":           {protection.Failure, 0, open, false},
		"timeout":           {protection.Timeout, time.Second, open, false},
		"ignored":           {protection.Ignored, time.Second, open, true},
		"unknown outcome":   {0, time.Second, open, true},
		"very late failure": {protection.Failure, 6 * time.Second, open, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := tripped(t, protection.BreakerOptions{})
				advance(5 * time.Second)
				trial := acquire(t, b)
				advance(c.took)
				assert.True(t, trial.Done(c.outcome))
				assert.Equal(t, b.State(), c.state)
				assert.Equal(t, b.Ready() == nil, c.next)
				assert.Equal(t, b.Recoveries() == 1, c.state == closed)
			})
		})
	}
}

func TestBreakerStartsAfreshWhenItCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{Window: time.Hour})
		advance(5 * time.Second)
		calls(t, b, 1, protection.Success)
		calls(t, b, 20, protection.Failure)
		assert.Equal(t, b.State(), protection.Closed, "the failures before the trip are in the hour, and count no more")
	})
}

func TestBreakerHungTrialWedgesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{})
		advance(5 * time.Second)
		hung := acquire(t, b)
		advance(5*time.Second - 1)
		refused(t, b, protection.ErrOpen)
		advance(time.Nanosecond)
		second := acquire(t, b)
		hung.Done(protection.Ignored)
		refused(t, b, protection.ErrOpen) // the slot is the second trial's now
		assert.Equal(t, b.State(), protection.HalfOpen)
		second.Done(protection.Success)
		assert.Equal(t, b.State(), protection.Closed)
	})
}

// A result from before a change of state can only mislead: it can false-close an open breaker, or false-trip a closed one.
func TestBreakerResultBelongsToThePeriodThatAdmittedIt_regression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{})
		late := make([]protection.Permit, 90)
		for i := range late {
			late[i] = acquire(t, b)
		}
		calls(t, b, 21, protection.Failure)
		late[0].Done(protection.Success)
		assert.Equal(t, b.State(), protection.Open, "a success from before the trip does not close")
		advance(5 * time.Second)
		trial := acquire(t, b)
		for _, permit := range late[1:40] {
			permit.Done(protection.Success)
			permit.Done(protection.Failure)
		}
		late[40].Done(protection.Failure)
		assert.Equal(t, b.State(), protection.HalfOpen, "only the trial decides")
		trial.Done(protection.Success)
		for _, permit := range late[41:] {
			permit.Done(protection.Failure)
		}
		assert.Equal(t, b.State(), protection.Closed, "failures from before the trip do not trip again")
	})
}

func TestBreakerDeadContextTakesNoTrial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{})
		advance(5 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := b.Acquire(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NoError(t, b.Ready())
	})
}

func TestStateString(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(protection.Closed, protection.Open, protection.HalfOpen, protection.State(9))
	assert.Equal(t, got, "closed open half-open unknown")
}
