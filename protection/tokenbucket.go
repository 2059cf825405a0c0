package protection

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// TokenBucket bounds the rate of work: within any t seconds it admits at most Rate·t + Burst. It is the generic cell rate
// algorithm (ITU-T I.371, virtual scheduling) on one atomic integer that only moves forward, counted in fractions of a
// token, so that no rate is rounded to whole nanoseconds. A refusal changes nothing. Safe for concurrent use.
//
// With a [Clock], a taker first looks at the coarse time. That never admits too much: an earlier reading shows fewer
// tokens, and the overflow of the bucket is reckoned as if the clock were a whole period (5 ms) later. It can show too
// few, so a taker that finds none looks again with the exact time before it is refused. What it costs is Burst: up to
// 5 ms·Rate of it may be missing. A bucket with a Burst below 50 ms·Rate + 10 uses exact time only. While the machine is so
// short of processors that the Clock is later than its period, the excess within a window is Rate·(delay − 5 ms) at most;
// in the long run there is none.
//
// Above 10⁹ units per second each take is rounded up to what Rate gives in a nanosecond or two.
type TokenBucket struct {
	opt  TokenBucketOptions // as at the start
	time timeline

	terms atomic.Pointer[terms] // never nil
	mu    sync.Mutex            // held while terms are replaced
}

// never is a RetryAfter that tells that no time will help, as things are.
const never = time.Duration(math.MaxInt64)

// NewTokenBucket returns a full bucket (with WarmUp, one that is full to a third), or an error that names the option that
// cannot be.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &TokenBucket{opt: o, time: newTimeline(o.Clock)}
	now := b.time.exact()
	first := newTerms(newFlow(o.Rate, o.Burst, o.WarmUp), now, now)
	first.taken.Store(-first.start())
	b.terms.Store(first)
	return b, nil
}

// Acquire takes a token, or returns a [*RejectedError] with [ErrLimited] and the exact time until there is one, as long as
// nobody else takes it; a RetryAfter of math.MaxInt64 says never. It does not wait. A ctx that has ended gets its error.
// The permit holds nothing: a token is spent when it is taken, however the work ends.
func (b *TokenBucket) Acquire(ctx context.Context) (Permit, error) {
	return b.AcquireN(ctx, 1)
}

// AcquireN is [TokenBucket.Acquire] for work that costs n tokens: it takes all of them or none. A cost above Burst is never
// admitted, and one below 1 is an error.
func (b *TokenBucket) AcquireN(ctx context.Context, n int) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	retry, ok := b.take(n)
	if ok {
		return Permit{owner: nothing{}}, nil
	}
	return Permit{}, b.refuse(n, retry)
}

// AllowN is [TokenBucket.AcquireN] without a ctx and without a reason: it takes n tokens and returns true, or takes none.
func (b *TokenBucket) AllowN(n int) bool {
	_, ok := b.take(n)
	return ok
}

// Tokens returns how many tokens there are now. It is negative by what those in [TokenBucket.Wait] have been promised, and
// +Inf without a limit.
func (b *TokenBucket) Tokens() float64 {
	b.mu.Lock() // terms that are being replaced know nothing
	defer b.mu.Unlock()
	s := b.terms.Load()
	if s.unlimited {
		return math.Inf(1)
	}
	return math.Ldexp(float64(s.left(s.taken.Load(), b.time.exact())), -s.shift)
}

// take takes n tokens, or says after how long they will be there.
func (b *TokenBucket) take(n int) (retry time.Duration, ok bool) {
	for {
		s := b.terms.Load()
		cost := s.one
		if n != 1 {
			if cost = s.cost(n); cost <= 0 {
				return never, false
			}
		}
		if s.shallow > 0 && b.time.clock != nil {
			if _, ok := s.take(s.earned(b.time.now()-s.base), s.shallow, cost); ok {
				return 0, true
			}
		}
		if s.unlimited {
			return 0, true
		}
		t := b.time.exact() - s.base
		need, ok := s.take(s.earned(t), s.depth, cost)
		if ok {
			return 0, true
		}
		if need < replaced {
			return s.until(need, t), false
		}
		b.await()
	}
}

// await returns when the terms that were found to be replaced have been.
func (b *TokenBucket) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
}

func (b *TokenBucket) refuse(n int, retry time.Duration) error {
	if n < 1 {
		return fmt.Errorf("protection: token bucket %q cannot give %d tokens: it must be at least 1", b.opt.Name, n)
	}
	return &RejectedError{Name: b.opt.Name, Policy: "token bucket", Reason: ErrLimited, RetryAfter: retry}
}
