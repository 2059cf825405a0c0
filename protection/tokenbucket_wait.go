package protection

import (
	"context"
	"time"
)

// Wait takes a token and returns when its time has come; callers are served in the order in which they came, and before
// those in Acquire. If that time is after ctx's deadline, or never, Wait returns a [*RejectedError] with [ErrLimited] at
// once and takes nothing; its RetryAfter is what the wait would have been. If ctx ends during the wait, its error is
// returned, and the token goes back unless somebody has queued behind. The work needs no permit.
func (b *TokenBucket) Wait(ctx context.Context) error { return b.WaitN(ctx, 1) }

// WaitN is [TokenBucket.Wait] for n tokens. More than Burst are never given, and less than 1 is an error.
func (b *TokenBucket) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	patience := never
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	for {
		s := b.terms.Load()
		cost := s.cost(n)
		if cost <= 0 {
			return b.refuse(n, never)
		}
		if s.unlimited {
			return nil
		}
		taken := s.taken.Load()
		if taken >= replaced {
			b.await()
			continue
		}
		t := b.time.exact() - s.base
		need := max(taken, s.earned(t)-s.depth) + cost
		wait := s.until(need, t)
		if wait > patience || wait == never || need >= replaced/2 {
			return b.refuse(n, wait)
		}
		if !s.taken.CompareAndSwap(taken, need) {
			continue
		}
		if wait <= 0 {
			return nil
		}
		return b.sleep(ctx, promise{terms: s, position: need, before: taken}, wait)
	}
}

// promise is the position of somebody who waits until it has been earned.
type promise struct {
	terms    *terms
	position int64
	before   int64 // the position that it was taken from
}

// sleep waits for the promise, in whatever terms there are by then.
func (b *TokenBucket) sleep(ctx context.Context, p promise, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			p.terms.taken.CompareAndSwap(p.position, p.before) // as if it had never been
			return ctx.Err()
		case <-p.terms.changed:
			next := p.terms.next
			p.position, p.before = next.translate(p.position, p.terms), next.translate(p.before, p.terms)
			p.terms = next
			if next.unlimited {
				return nil
			}
			timer.Reset(next.until(p.position, b.time.exact()-next.base))
		}
	}
}
