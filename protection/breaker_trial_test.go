package protection_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

func TestBreakerAtMostThreeTrialsAreOut(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]func(*protection.Breaker) protection.Policy{
		"alone":      func(b *protection.Breaker) protection.Policy { return b },
		"in a chain": func(b *protection.Breaker) protection.Policy { return protection.Chain(b) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				b := tripped(t, protection.BreakerOptions{Name: "db", Observer: &r})
				p := policy(b)
				hung := make([]protection.Permit, 3)
				for i := range hung {
					advance(5 * time.Second)
					hung[i] = acquire(t, p)
					assert.Equal(t, b.Snapshot().Trials, i+1)
				}
				for range 8 {
					advance(5 * time.Second)
					assert.Equal(t, assert.ErrorAs[*protection.RejectedError](t, b.Ready()).RetryAfter, 5*time.Second)
					assert.Equal(t, refused(t, p, protection.ErrOpen).RetryAfter, 5*time.Second)
				}
				assert.Equal(t, r.told(), []observe.Kind{observe.BreakerOpened, observe.Alarm}, "one alarm")
				alarm := r.seen[1]
				assert.Equal(t, fmt.Sprint(alarm.Level, " ", alarm.Alarm.Cause, " ", alarm.Alarm.Phase, " ", alarm.Alarm.Evidence),
					"critical trial calls hang raised [trials=3 open=20s]")

				hung[1].Done(protection.Failure) // its place is free
				advance(5 * time.Second)
				fourth := acquire(t, p)
				assert.Equal(t, r.told(), []observe.Kind{observe.BreakerOpened, observe.Alarm, observe.Alarm})
				assert.Equal(t, r.seen[2].Alarm.Phase, observe.Cleared)
				fourth.Done(protection.Success)
				assert.Equal(t, b.State(), protection.Closed)
				hung[0].Done(protection.Success)
				hung[2].Done(protection.Failure)
				assert.Equal(t, b.Snapshot().Trials, 0)
			})
		})
	}
}

// Work that ignores its ctx, or a permit that was lost: what never comes back must not keep the breaker open for ever.
func TestBreakerTrialsThatNeverReturnAreWrittenOff(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]protection.BreakerOptions{
		"default":          {},
		"quick trials":     {TrialTimeout: time.Millisecond},
		"patient trials":   {OpenFor: time.Second, TrialTimeout: 5 * time.Second},
		"in a shadow mode": {Shadow: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := tripped(t, o)
				pause := 5 * time.Second
				if o.OpenFor > 0 {
					pause = o.OpenFor
				}
				advance(pause)
				first := time.Now()
				lost := make([]protection.Permit, 3)
				for i := range lost {
					assert.NoError(t, b.Ready())
					lost[i] = acquire(t, b)
					advance(pause)
				}
				// Ten times the longer of OpenFor and TrialTimeout after the second trial could start.
				for time.Since(first) < pause+50*time.Second {
					assert.Equal(t, b.Snapshot().Trials, 3)
					before := b.Snapshot().Rejected
					if permit, err := b.Acquire(t.Context()); err == nil {
						permit.Done(protection.Success)
					}
					assert.Equal(t, b.Snapshot().Rejected, before+1, "refused at ", time.Since(first))
					advance(pause)
				}
				fourth := acquire(t, b)
				assert.Equal(t, b.Snapshot().Trials, 3)
				lost[0].Done(protection.Failure) // it has no place to give back
				assert.Equal(t, b.Snapshot().Trials, 3)
				fourth.Done(protection.Success)
				assert.Equal(t, b.State(), protection.Closed)
			})
		})
	}
}

func TestBreakerHungTrialsDoNotSurviveAForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := tripped(t, protection.BreakerOptions{Observer: &r})
		for range 3 {
			advance(5 * time.Second)
			acquire(t, b)
		}
		advance(5 * time.Second)
		refused(t, b, protection.ErrOpen)
		b.ForceClosed(time.Now())
		calls(t, b, 1, protection.Success)
		assert.Equal(t, r.told(), []observe.Kind{observe.BreakerOpened, observe.Alarm, observe.Alarm, observe.BreakerClosed})
	})
}

func TestBreakerTrialHasADeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    protection.BreakerOptions
		want time.Duration
	}{
		{protection.BreakerOptions{}, 5 * time.Second},
		{protection.BreakerOptions{OpenFor: time.Minute, TrialTimeout: 2 * time.Second}, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := tripped(t, c.o)
			advance(time.Minute)
			start := time.Now()
			err := protection.Do(t.Context(), b, func(ctx context.Context) error {
				<-ctx.Done()
				assert.Equal(t, context.Cause(ctx), protection.ErrExecutionTimeout)
				return ctx.Err()
			})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, time.Since(start), c.want)
			assert.Equal(t, b.State(), protection.Open)
			assert.Equal(t, b.Snapshot().Timeout, 1)

			advance(time.Minute)
			trial := acquire(t, protection.Chain(b))
			assert.Equal(t, trial.Limit(), c.want, "through a chain")
			trial.Done(protection.Success)
			plain := acquire(t, b)
			assert.Equal(t, plain.Limit(), 0, "only trials have one")
		})
	}
}

func TestBreakerRampLetsTheShareRise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := tripped(t, protection.BreakerOptions{Ramp: 30 * time.Second, Name: "db"})
		advance(5 * time.Second)
		calls(t, b, 1, protection.Success)
		for _, want := range []int{10, 25, 50, 100, 100} {
			assert.Equal(t, b.State(), protection.Closed)
			assert.Equal(t, b.Snapshot().Share, want)
			admitted := 0
			for range 1000 {
				assert.NoError(t, b.Ready(), "nobody knows")
				permit, err := b.Acquire(t.Context())
				if err == nil {
					admitted++
					permit.Done(protection.Success)
					continue
				}
				got := assert.ErrorAs[*protection.RejectedError](t, err)
				assert.Equal(t, *got, protection.RejectedError{Name: "db", Policy: "breaker", Reason: protection.ErrOpen, RetryAfter: 10 * time.Second})
			}
			assert.Equal(t, admitted, 10*want)
			advance(10 * time.Second)
		}
		assert.Equal(t, b.Recoveries(), 1)
	})
}

func TestBreakerTripsOnTheRampToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{Ramp: time.Minute, MinCalls: 2})
		calls(t, b, 3, protection.Failure)
		advance(5 * time.Second)
		calls(t, b, 1, protection.Success)
		for b.State() == protection.Closed {
			if permit, err := b.Acquire(t.Context()); err == nil {
				permit.Done(protection.Failure)
			}
		}
		assert.Equal(t, b.Snapshot().Reason, "3 of 3 calls failed or timed out within 10s")
	})
}

func TestBreakerRampIsForRecoveriesOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{Ramp: time.Hour})
		calls(t, b, 100, protection.Success)
		b.ForceOpen("test", time.Time{})
		b.ForceClosed(time.Now())
		calls(t, b, 100, protection.Success)
	})
}
