package protection

import (
	"fmt"
	"math"
	"sync/atomic"
)

// terms are a flow and a position in it, for the time from one change of the rate or the burst to the next.
//
// A change first moves the position of the old terms to replaced, so that nobody takes from them any more, then puts what
// was left into the new ones. So no token is lost or given twice, and takers pay for it with one more load.
type terms struct {
	flow
	base    int64         // the time of the policy at which the flow began
	since   int64         // and at which these terms did
	changed chan struct{} // closed once next is set
	next    *terms

	_     [128]byte    // takers write to the position; what they all read stays in their caches
	taken atomic.Int64 // units taken since base; minus the depth at first, so that the bucket is full
	_     [120]byte
}

// replaced is more than any position.
const replaced = 1 << 62

func newTerms(f flow, base, since int64) *terms {
	return &terms{flow: f, base: base, since: since, changed: make(chan struct{})}
}

// take moves the position by cost if the units earned cover it. If not it changes nothing. Either way it returns what
// must have been earned for it. What has been earned and not taken is cut down to the depth first.
func (s *terms) take(earned, depth, cost int64) (need int64, ok bool) {
	for {
		taken := s.taken.Load()
		need = max(taken, earned-depth) + cost
		if need > earned {
			return need, false
		}
		if s.taken.CompareAndSwap(taken, need) {
			return need, true
		}
	}
}

// left returns what somebody at the position has not taken yet at the time now; negative if it was promised in advance.
func (s *terms) left(position, now int64) int64 {
	return min(s.earned(now-s.base)-position, s.depth)
}

// translate returns the position in these terms of a position in the old ones: the same number of tokens is left.
func (s *terms) translate(position int64, old *terms) int64 {
	left := s.depth
	if !old.unlimited {
		left = rescale(old.left(position, s.since), s.shift-old.shift)
	}
	return s.earned(s.since-s.base) - min(left, s.depth)
}

// rescale returns units·2^by, rounded down and kept within bounds.
func rescale(units int64, by int) int64 {
	if by <= 0 {
		return units >> min(-by, 63)
	}
	if by >= 62 || units >= maxDepth>>by {
		if units <= 0 {
			return max(units, -1) * maxDepth
		}
		return maxDepth
	}
	return max(units, -maxDepth>>by) << by
}

// SetRate changes the rate to so many units per second, at once and for those who wait too. The tokens that are there
// stay. A rate of 0 is closed once they are gone: everything is refused, with a RetryAfter of math.MaxInt64, until the
// next SetRate. math.Inf(1) is no limit, and what follows it begins with a full bucket. Burst stays as it is, also if it
// was a default. An error says that the rate cannot be, and nothing has changed then.
func (b *TokenBucket) SetRate(perSecond float64) error {
	if math.IsNaN(perSecond) || perSecond < 0 {
		return fmt.Errorf("protection: the rate of a token bucket cannot be %v: it must not be negative", perSecond)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opt.Rate = perSecond
	b.replace(false)
	return nil
}

// SetBurst changes the burst, which must be at least 1. The tokens that are there stay, as far as there is room for them.
// An error says that the burst cannot be, and nothing has changed then.
func (b *TokenBucket) SetBurst(n int) error {
	if n < 1 {
		return fmt.Errorf("protection: the burst of a token bucket cannot be %d: it must be at least 1", n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opt.Burst = n
	b.replace(false)
	return nil
}

// Restart begins the warm-up again, as after a trip of a breaker or a restart of the dependency: the rate falls to a third
// and rises again, and the bucket keeps at most a third of Burst. Without WarmUp it does nothing.
func (b *TokenBucket) Restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opt.WarmUp > 0 {
		b.replace(true)
	}
}

// replace puts terms as the options say in the place of the present ones. It runs under the lock.
func (b *TokenBucket) replace(restart bool) {
	old := b.terms.Load()
	position := old.taken.Swap(replaced)
	now := b.time.exact()
	base := old.base
	if restart {
		base = now
	}
	s := newTerms(newFlow(b.opt.Rate, b.opt.Burst, b.opt.WarmUp), base, now)
	position = s.translate(position, old)
	if restart {
		position = max(position, -s.start())
	}
	s.taken.Store(position)
	old.next = s
	b.terms.Store(s)
	close(old.changed)
}
