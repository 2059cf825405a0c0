package protection

import "context"

// Outcome is how a unit of work ended.
type Outcome uint8

// The outcomes of a unit of work.
const (
	Success Outcome = iota + 1
	Failure
	Timeout
	Ignored // the result says nothing about the dependency, such as a cancellation by the caller
)

// Policy admits or refuses units of work. Implementations are safe for concurrent use.
type Policy interface {
	// Acquire admits one unit of work, waiting if the policy has a queue. On refusal it returns a [*RejectedError],
	// or ctx's error if ctx ended first; then nothing is held. Done must be called once on an admitted permit.
	Acquire(ctx context.Context) (Permit, error)
}
