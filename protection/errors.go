package protection

import (
	"errors"
	"fmt"
	"time"
)

// ErrRejected is what errors.Is finds in every refusal: the work has not started.
var ErrRejected = errors.New("protection: rejected")

// The reasons of a refusal, as found by errors.Is in a [*RejectedError].
var (
	ErrOpen        = errors.New("circuit breaker open")
	ErrLimited     = errors.New("rate limit exceeded")
	ErrFull        = errors.New("no free slot and the queue is full")
	ErrShed        = errors.New("load shed")
	ErrWaitTimeout = errors.New("waited too long for a free slot")
)

// ErrExecutionTimeout is the cause (see [context.Cause]) with which the ctx of admitted work ends when the work has used
// up the [Permit.Limit] of its permit. It is no refusal: the work has started.
var ErrExecutionTimeout = errors.New("protection: execution timeout")

// RejectedError is a refusal by a policy. It is immutable and safe to share.
type RejectedError struct {
	Name       string        // the name given to the policy
	Policy     string        // its kind: "breaker", "bulkhead", "token bucket", …
	Reason     error         // one of ErrOpen, ErrLimited, ErrFull, ErrShed, ErrWaitTimeout
	RetryAfter time.Duration // a hint: not worth trying sooner; zero if unknown
}

// Error names the policy and the reason.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("protection: %s %q rejected the call: %v", e.Policy, e.Name, e.Reason)
}

// Is reports whether target is [ErrRejected].
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

// Unwrap returns the reason.
func (e *RejectedError) Unwrap() error { return e.Reason }
