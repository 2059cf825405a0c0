package protection_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func TestPermitOfOnesOwnPolicyIsDoneOnce(t *testing.T) {
	t.Parallel()
	var got []protection.Outcome
	for _, o := range []protection.Outcome{protection.Success, protection.Failure, protection.Timeout, protection.Ignored, 0, 5, 255} {
		permit := protection.NewPermit(func(o protection.Outcome) { got = append(got, o) })
		assert.True(t, permit.Done(o))
		assert.True(t, !permit.Done(o))
	}
	assert.Equal(t, got, []protection.Outcome{
		protection.Success, protection.Failure, protection.Timeout, protection.Ignored,
		protection.Ignored, protection.Ignored, protection.Ignored,
	})
	free := protection.NewPermit(nil)
	assert.True(t, free.Done(protection.Success))
	assert.True(t, !free.Done(protection.Success))
	var zero protection.Permit
	assert.True(t, !zero.Done(protection.Success))
	assert.Equal(t, zero.Limit(), 0)
}

// A permit is not to be copied; a copy that is ended all the same must not end what another call holds by then.
func TestChainPermitThatWasCopiedEndsNothingOfOthers(t *testing.T) {
	t.Parallel()
	slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	c := protection.Chain(slots)
	first := acquire(t, c)
	again := first
	first.Done(protection.Success)
	second := acquire(t, c)
	again.Done(protection.Success)
	assert.Equal(t, again.Limit(), 0)
	assert.Equal(t, slots.InFlight(), 1)
	second.Done(protection.Success)
	assert.Equal(t, slots.InFlight(), 0)
}

// What the error of a call means, by how the call's time was bounded.
func TestPermitOutcome(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		deadline time.Duration // of the caller; 0 for none
		limit    time.Duration // of the execution; 0 for none
		waits    time.Duration // before the call asks for admission, of the caller's time
		takes    time.Duration // what the work takes if it is not cut short
		err      error         // what it returns when it is done; when cut short it returns ctx's error
		late     bool          // it pays no attention to ctx
		want     protection.Outcome
	}{
		"success":                               {want: protection.Success},
		"failure":                               {err: boom, want: protection.Failure},
		"cancelled":                             {err: context.Canceled, want: protection.Ignored},
		"execution timeout":                     {limit: 50 * ms, takes: time.Second, want: protection.Timeout},
		"execution timeout, nil comes late":     {limit: 50 * ms, takes: time.Second, late: true, want: protection.Timeout},
		"execution timeout, an error late":      {limit: 50 * ms, takes: time.Second, late: true, err: boom, want: protection.Timeout},
		"in time":                               {limit: 50 * ms, takes: 49 * ms, want: protection.Success},
		"caller's deadline of 100 ms":           {deadline: 100 * ms, takes: time.Second, want: protection.Timeout},
		"caller's deadline of 99 ms":            {deadline: 99 * ms, takes: time.Second, want: protection.Ignored},
		"caller has waited too long":            {deadline: time.Second, waits: 901 * ms, takes: time.Second, want: protection.Ignored},
		"caller has left 100 ms":                {deadline: time.Second, waits: 900 * ms, takes: time.Second, want: protection.Timeout},
		"short deadline, short execution":       {deadline: 20 * ms, limit: 20 * ms, takes: time.Second, want: protection.Timeout},
		"deadline shorter than the execution":   {deadline: 19 * ms, limit: 20 * ms, takes: time.Second, want: protection.Ignored},
		"deadline beside a long execution":      {deadline: 100 * ms, limit: time.Second, takes: time.Second, want: protection.Timeout},
		"short deadline, but another error":     {deadline: 5 * ms, takes: ms, err: boom, want: protection.Failure},
		"short deadline, timeout of its own":    {deadline: 50 * ms, takes: 10 * ms, err: context.DeadlineExceeded, want: protection.Timeout},
		"short deadline, noticed by a socket":   {deadline: 5 * ms, takes: 6 * ms, late: true, err: os.ErrDeadlineExceeded, want: protection.Ignored},
		"timeout of a socket":                   {takes: 6 * ms, err: fmt.Errorf("read: %w", os.ErrDeadlineExceeded), want: protection.Timeout},
		"success that the caller did not see":   {deadline: 5 * ms, takes: 6 * ms, late: true, want: protection.Success},
		"wrapped, after a deadline of a minute": {deadline: time.Minute, takes: time.Hour, err: nil, want: protection.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, protection.BreakerOptions{})
				p := protection.Policy(b)
				if c.limit > 0 {
					execution, err := protection.NewExecutionTimeout(c.limit)
					assert.NoError(t, err)
					p = protection.Chain(execution, b)
				}
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				if c.waits > 0 {
					advance(c.waits)
				}
				_ = protection.Do(ctx, p, func(ctx context.Context) error {
					if c.takes > 0 {
						work := time.NewTimer(c.takes)
						if c.late {
							<-work.C
							return c.err
						}
						select {
						case <-work.C:
						case <-ctx.Done():
							return fmt.Errorf("query: %w", ctx.Err())
						}
					}
					return c.err
				})
				s := b.Snapshot()
				got := map[protection.Outcome]uint64{
					protection.Success: s.Success, protection.Failure: s.Failure, protection.Timeout: s.Timeout, protection.Ignored: s.Cancelled,
				}
				want := map[protection.Outcome]uint64{protection.Success: 0, protection.Failure: 0, protection.Timeout: 0, protection.Ignored: 0}
				want[c.want] = 1
				assert.Equal(t, got, want)
			})
		})
	}
}

func TestClassifierIsAskedForErrorsOnly(t *testing.T) {
	t.Parallel()
	notFound := errors.New("not found")
	b := newBreaker(t, protection.BreakerOptions{Classify: func(err error) protection.Outcome {
		assert.Error(t, err)
		if errors.Is(err, notFound) {
			return protection.Success
		}
		return protection.Classify(err)
	}})
	slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	for _, p := range []protection.Policy{b, protection.Chain(slots, protection.Chain(b)), protection.Chain(protection.Once(b))} {
		for _, err := range []error{nil, notFound, errors.New("boom")} {
			assert.Equal(t, protection.Do(t.Context(), p, func(context.Context) error { return err }), err)
		}
	}
	s := b.Snapshot()
	assert.Equal(t, []uint64{s.Success, s.Failure}, []uint64{6, 3})
}

func TestClassifierThatPanicsIsAFailure(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, protection.BreakerOptions{Classify: func(error) protection.Outcome { panic("classifier") }})
	func() {
		defer func() { assert.Equal(t, recover(), any("classifier")) }()
		_ = protection.Do(t.Context(), b, func(context.Context) error { return errors.New("boom") })
	}()
	assert.Equal(t, b.Snapshot().Failure, 1)
}
