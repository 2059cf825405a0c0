package protection_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("load: %w", err) }
	for _, c := range []struct {
		err  error
		want protection.Outcome
	}{
		{nil, protection.Success},
		{context.Canceled, protection.Ignored},
		{wrap(context.Canceled), protection.Ignored},
		{&protection.RejectedError{Reason: protection.ErrFull}, protection.Ignored},
		{wrap(&protection.RejectedError{Reason: protection.ErrWaitTimeout}), protection.Ignored},
		{context.DeadlineExceeded, protection.Timeout},
		{wrap(context.DeadlineExceeded), protection.Timeout},
		{errors.New("boom"), protection.Failure},
	} {
		assert.Equal(t, protection.Classify(c.err), c.want, c.err)
	}
}

func TestDoValuePassesOnWhatTheFunctionReturns(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	b := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	for _, p := range []protection.Policy{nil, b} {
		v, err := protection.DoValue(t.Context(), p, func(context.Context) (int, error) { return 7, boom })
		assert.Equal(t, v, 7)
		assert.Equal(t, err, boom)
	}
	held := acquire(t, b)
	v, err := protection.DoValue(t.Context(), b, func(context.Context) (int, error) {
		t.Error("started although refused")
		return 7, nil
	})
	assert.Equal(t, v, 0)
	assert.ErrorIs(t, err, protection.ErrFull)
	held.Done(protection.Success)
	assert.NoError(t, protection.Do(t.Context(), b, func(context.Context) error { return nil }))
}

// Each way for a trial call to end: its slot is free afterwards, and only what was judged decides.
func TestDoEveryWayOutFreesTheTrial(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fn    func() error
		state protection.State
		next  bool // another trial may start at once
	}{
		"return":  {func() error { return nil }, protection.Closed, true},
		"error":   {func() error { return errors.New("boom") }, protection.Open, false},
		"timeout": {func() error { return context.DeadlineExceeded }, protection.Open, false},
		"cancel":  {func() error { return context.Canceled }, protection.Open, true},
		"refusal": {func() error { return &protection.RejectedError{Reason: protection.ErrFull} }, protection.Open, true},
		"panic":   {func() error { panic("boom") }, protection.Open, false},
		"goexit":  {func() error { runtime.Goexit(); return nil }, protection.Open, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := tripped(t, protection.BreakerOptions{})
				slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
				advance(5 * time.Second)
				var recovered any
				go func() {
					defer func() { recovered = recover() }()
					_ = protection.Do(t.Context(), protection.Chain(slots, b), func(context.Context) error { return c.fn() })
				}()
				synctest.Wait()
				assert.Equal(t, recovered != nil, name == "panic", "a panic goes on")
				assert.Equal(t, slots.InFlight(), 0)
				assert.Equal(t, b.State(), c.state)
				assert.Equal(t, b.Ready() == nil, c.next)
			})
		})
	}
}

func TestDoPanicsTripTheBreaker(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, protection.BreakerOptions{})
	for range 21 {
		func() {
			defer func() { assert.Equal(t, recover(), any("boom")) }()
			_ = protection.Do(t.Context(), b, func(context.Context) error { panic("boom") })
		}()
	}
	assert.Equal(t, b.State(), protection.Open)
}
