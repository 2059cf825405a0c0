package protection

import (
	"context"
	"fmt"
	"time"
)

// TimeoutError is the error of a task of a [Pool] that ran out of time. It is found by errors.Is as
// context.DeadlineExceeded and as [ErrExecutionTimeout]; a [Classifier] should take it as a [Timeout], as [Classify] does.
type TimeoutError struct {
	Name  string        // the name given to the pool
	After time.Duration // how long the task had
}

// Error names the pool and the time.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("protection: pool %q: the task has not ended within %v", e.Name, e.After)
}

// Is reports whether target is context.DeadlineExceeded or [ErrExecutionTimeout].
func (e *TimeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == ErrExecutionTimeout
}

// Timeout returns true, as net.Error wants it.
func (e *TimeoutError) Timeout() bool { return true }

// NewExecutionTimeout returns a policy that admits everything and bounds how long it runs: [Do] and [DoValue] end the
// function's ctx after d, with the cause [ErrExecutionTimeout], and count the call as a [Timeout], whatever it returns. In
// a [Chain] the shortest limit applies. Time spent waiting for admission does not count. A function that ignores its ctx
// is not cut short, nor its caller freed: for that see [Pool]. Safe for concurrent use. A d of 0 or less is an error.
func NewExecutionTimeout(d time.Duration) (Policy, error) {
	if d <= 0 {
		return nil, fmt.Errorf("protection: NewExecutionTimeout: d is %v: it must be above 0", d)
	}
	return executionTimeout(d), nil
}

type executionTimeout time.Duration

// Acquire admits everything but a ctx that has ended.
func (d executionTimeout) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	return limitedPermit(time.Duration(d)), nil
}

// NewWaitTimeout returns a policy that bounds how long p, usually a [Chain] of several that wait, may take to admit: after
// d it refuses with [ErrWaitTimeout] and the given name. The ctx of the work is not bounded by it. Admission costs a ctx
// with a deadline. Safe for concurrent use. A nil p, or a d of 0 or less, is an error.
func NewWaitTimeout(name string, p Policy, d time.Duration) (Policy, error) {
	if p == nil {
		return nil, fmt.Errorf("protection: NewWaitTimeout %q: p is nil: it must be a policy", name)
	}
	if d <= 0 {
		return nil, fmt.Errorf("protection: NewWaitTimeout %q: d is %v: it must be above 0", name, d)
	}
	return &waitTimeout{name: name, policy: p, wait: d}, nil
}

type waitTimeout struct {
	name   string
	policy Policy
	wait   time.Duration
}

// Acquire asks the policy under a ctx that ends when the time is up.
func (w *waitTimeout) Acquire(ctx context.Context) (Permit, error) {
	bounded, cancel := context.WithTimeout(ctx, w.wait)
	defer cancel()
	permit, err := w.policy.Acquire(bounded)
	// Only the error of the ctx made here is a wait that was too long; a refusal of the policy says more.
	if err == context.DeadlineExceeded && ctx.Err() == nil { //nolint:errorlint // policies pass it on as it is
		return Permit{}, &RejectedError{Name: w.name, Policy: "wait timeout", Reason: ErrWaitTimeout}
	}
	return permit, err
}

// Ready looks ahead as the policy does.
func (w *waitTimeout) Ready() error { return ready(w.policy) }

func (w *waitTimeout) look(ctx context.Context) error { return look(ctx, w.policy) }

// Recoveries is that of the policy.
func (w *waitTimeout) Recoveries() uint64 { return recoveries(w.policy) }
