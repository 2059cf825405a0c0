// Package protection keeps a dependency inside its capacity: a circuit breaker, a bulkhead and a token bucket, each
// useful on its own around any call, and a chain of them. It knows nothing of caches or SQL.
//
// Every policy admits or refuses one unit of work in two steps: Acquire returns a [Permit] or an error, and the permit's
// Done tells how the work ended. [Do] and [DoValue] do both around a function. A refusal is always a [*RejectedError],
// and errors.Is(err, [ErrRejected]) means that the work has not started.
package protection
