// Package protection keeps a dependency inside its capacity: circuit breakers, bulkheads, rate limits and more, each
// useful on its own around any call, and chains of them. It knows nothing of caches or SQL.
//
// Every policy admits or refuses one unit of work in two steps: Acquire returns a [Permit] or an error, and the permit's
// Done tells how the work ended. [Do] and [DoValue] do both around a function. A refusal is always a [*RejectedError],
// and errors.Is(err, [ErrRejected]) means that the work has not started.
//
// A [Chain] asks its policies in order, outermost first. In front of a database: a limiter, a bulkhead, the breaker, an
// execution timeout. The chain looks at the breaker before it waits anywhere, and takes its permit last, so that nothing
// can waste a trial call. Where two gates of one guard stand in a row, wrap the guard in [Once].
//
// Time is monotonic. Policies that are given a [Clock] read it for a nanosecond instead of 40; tests of code that uses
// them run in testing/synctest.
package protection
