package protection

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// TokenBucketOptions says how much work a [TokenBucket] admits.
type TokenBucketOptions struct {
	Name string // a label for errors

	Rate  float64 // units of work per second, in the long run; required; math.Inf(1) for no limit
	Burst int     // how many may start at once after a rest; default a tenth of a second's worth, at least 1
}

// TokenBucket bounds the rate of work with the token bucket algorithm (golang.org/x/time/rate): within any t seconds it
// admits at most Rate·t + Burst. It never waits. Safe for concurrent use.
type TokenBucket struct {
	opt TokenBucketOptions

	// The lock keeps the reading of the clock and its use together: a limiter that sees an earlier time after a later one
	// credits the time between twice.
	mu      sync.Mutex
	limiter *rate.Limiter
}

// NewTokenBucket returns a full bucket, or an error that names the option that cannot be.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	if math.IsNaN(o.Rate) || o.Rate <= 0 {
		return nil, fmt.Errorf("protection: TokenBucketOptions.Rate is %v: it must be above 0", o.Rate)
	}
	if o.Burst < 0 {
		return nil, fmt.Errorf("protection: TokenBucketOptions.Burst is %d: it must not be negative", o.Burst)
	}
	if o.Burst == 0 {
		o.Burst = int(min(math.MaxInt32, max(1, o.Rate/10)))
	}
	return &TokenBucket{opt: o, limiter: rate.NewLimiter(rate.Limit(o.Rate), o.Burst)}, nil
}

// Acquire takes a token, or returns a [*RejectedError] with [ErrLimited] and the time until there is one; a refusal
// consumes nothing. It never waits. A ctx that has ended gets its error. The permit holds nothing: a token is spent when
// it is taken, however the work ends.
func (t *TokenBucket) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.limiter.AllowN(now, 1) {
		return Permit{owner: nothing{}}, nil
	}
	return Permit{}, &RejectedError{
		Name: t.opt.Name, Policy: "token bucket", Reason: ErrLimited,
		RetryAfter: untilToken(1-t.limiter.TokensAt(now), t.opt.Rate),
	}
}

// untilToken returns how long the missing part of a token takes, rounded up so that a caller who waits that long finds it.
func untilToken(missing, perSecond float64) time.Duration {
	ns := math.Ceil(missing / perSecond * float64(time.Second))
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
