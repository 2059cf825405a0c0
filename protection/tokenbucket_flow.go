package protection

import (
	"math"
	"math/bits"
	"time"

	"github.com/snowshed-go/snowshed/internal/clock"
)

// flow is how tokens come: an arithmetic without state. It counts in units of 2^-shift tokens, chosen so that the rate is
// half a unit to one unit per nanosecond. So one multiplication gives the units of any time without a drift, and time
// runs out after more than a century.
type flow struct {
	mult      uint64 // units per nanosecond, times 2^64; 0 when nothing comes
	shift     int    // negative when a unit is several tokens
	one       int64  // the cost of one token
	depth     int64  // the burst
	shallow   int64  // the burst for coarse readings; 0: they are of no use
	warm      int64  // length of the warm-up, ns
	lost      int64  // units that the warm-up has cost once it is over
	unlimited bool
}

// maxDepth leaves room for the depth, a cost and a promise on top of what has been earned.
const maxDepth = 1 << 61

// coarseShare is how much of a burst a coarse reading may leave unused: one part in so many.
const coarseShare = 10

// newFlow takes a rate of 0 up to +Inf per second, a burst of at least 1 and a warm-up of at least 0.
func newFlow(perSecond float64, burst int, warmUp time.Duration) flow {
	f := flow{unlimited: math.IsInf(perSecond, 1), warm: int64(warmUp)}
	room := 61 - bits.Len64(uint64(burst)) //nolint:gosec // not negative
	if f.unlimited || perSecond == 0 {
		f.shift = max(room, 0)
	} else {
		// A rate that fills the bucket within a nanosecond is as good as any higher one.
		fraction, exponent := math.Frexp(min(perSecond, float64(burst)*1e9))
		if fraction *= (1 << 30) / 1e9; fraction >= 1 {
			fraction /= 2
			exponent++
		}
		best := 30 - exponent // half a unit to one unit per nanosecond
		f.shift = min(best, max(room, min(best, 0)))
		f.mult = uint64(math.Ldexp(fraction, 64)) >> (best - f.shift)
	}
	f.one, f.depth = f.units(1), min(f.units(burst), maxDepth)
	tick, _ := bits.Mul64(uint64(clock.Tick), f.mult)
	if ahead := int64(tick) + 1; !f.unlimited && ahead+f.one <= f.depth/coarseShare { //nolint:gosec // less than a tick's nanoseconds
		f.shallow = f.depth - ahead
	}
	if f.warm > 0 {
		whole, _ := bits.Mul64(uint64(f.warm), f.mult)
		f.lost = int64(whole) - f.warming(f.warm) //nolint:gosec // less than the nanoseconds
	}
	return f
}

// units returns n tokens in units, rounded up. It may pass maxDepth, but not 2^63.
func (f *flow) units(n int) int64 {
	if f.shift >= 0 {
		if bits.Len64(uint64(n))+f.shift > 62 { //nolint:gosec // not negative
			return math.MaxInt64
		}
		return int64(n) << f.shift
	}
	return int64(n-1)>>min(-f.shift, 63) + 1
}

// cost returns n tokens in units, or 0 if the bucket never holds so many.
func (f *flow) cost(n int) int64 {
	if n < 1 {
		return 0
	}
	if cost := f.units(n); cost <= f.depth || f.unlimited {
		return cost
	}
	return 0
}

// earned returns the units that have come after t nanoseconds. It never falls.
func (f *flow) earned(t int64) int64 {
	if t < f.warm || t < 0 {
		return f.warming(max(t, 0))
	}
	whole, _ := bits.Mul64(uint64(t), f.mult)
	return int64(whole) - f.lost //nolint:gosec // less than t
}

// warming is earned during the warm-up, when the rate rises in a straight line from a third to the whole: the integral is
// (t + t²/warm)/3 of the whole rate. The third is the cold factor of Guava's SmoothWarmingUp; that the rise goes by the
// time since the start, and not by what was left unused, is Envoy's slow start (aggression 1).
func (f *flow) warming(t int64) int64 {
	if t <= 0 {
		return 0
	}
	whole, _ := bits.Mul64(uint64(t), f.mult)
	hi, lo := bits.Mul64(whole, uint64(t))
	square, _ := bits.Div64(hi, lo, uint64(f.warm)) //nolint:gosec // t ≤ warm, so the quotient fits
	return int64((whole + square) / 3)              //nolint:gosec // less than t
}

// when returns the first nanosecond at which so many units have come, or false if that is too far off to tell.
func (f *flow) when(units int64) (int64, bool) {
	if units <= 0 {
		return 0, true
	}
	if f.warm > 0 && units <= f.earned(f.warm) {
		return f.search(units), true
	}
	want := uint64(units + f.lost) //nolint:gosec // positive
	if want >= f.mult {
		return 0, false // after 2^64 ns, or never
	}
	t, rest := bits.Div64(want, 0, f.mult)
	if rest > 0 {
		t++
	}
	if t > math.MaxInt64 {
		return 0, false
	}
	return int64(t), true
}

// search is when within the warm-up.
func (f *flow) search(units int64) int64 {
	lo, hi := int64(0), f.warm
	for lo < hi {
		if mid := lo + (hi-lo)/2; f.earned(mid) >= units {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// until is when, from the time t on.
func (f *flow) until(units, t int64) time.Duration {
	at, ok := f.when(units)
	if !ok {
		return never
	}
	return time.Duration(at - t)
}

// start returns what a bucket holds at its start.
func (f *flow) start() int64 {
	if f.warm == 0 {
		return f.depth
	}
	return max(f.depth/3, f.one)
}
