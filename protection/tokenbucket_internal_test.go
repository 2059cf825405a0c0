package protection

import (
	"math"
	"math/big"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/internal/assert"
)

func anyRate() *rapid.Generator[float64] {
	return rapid.Custom(func(t *rapid.T) float64 {
		return math.Ldexp(rapid.Float64Range(1, 1.99).Draw(t, "fraction"), rapid.IntRange(-1070, 1023).Draw(t, "exponent"))
	})
}

func anyBurst() *rapid.Generator[int] {
	return rapid.Custom(func(t *rapid.T) int {
		return max(1, rapid.IntRange(0, math.MaxInt).Draw(t, "burst")>>rapid.IntRange(0, 63).Draw(t, "by"))
	})
}

// All rates and bursts that can be given: nothing overflows, and the arithmetic keeps what the algorithm rests on.
func TestFlowOfAnyRateAndBurst_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, burst := anyRate().Draw(t, "rate"), anyBurst().Draw(t, "burst")
		warm := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "warm"))
		f := newFlow(r, burst, warm)
		if f.depth < 1 || f.depth > maxDepth || f.one < 1 || f.one > f.depth || f.shallow < 0 || f.shallow >= f.depth {
			t.Fatalf("%+v", f)
		}
		if n := rapid.IntRange(1, burst).Draw(t, "n"); int64(burst) <= maxDepth && (f.cost(n) < f.one || f.cost(n) > f.depth) {
			t.Fatalf("%d of %d cost %d in %+v", n, burst, f.cost(n), f)
		}
		if burst < math.MaxInt && f.shift >= 0 && f.cost(burst+1) != 0 {
			t.Fatalf("more than a burst of %d cost %d in %+v", burst, f.cost(burst+1), f)
		}
		at := rapid.Int64Range(0, int64(20*365*24*time.Hour)).Draw(t, "at")
		earned := f.earned(at)
		if earned < 0 || earned > at || f.earned(at+1) < earned {
			t.Fatalf("earned %d, then %d at %d in %+v", earned, f.earned(at+1), at, f)
		}
		want := earned + rapid.Int64Range(1, maxDepth).Draw(t, "more")
		if when, ok := f.when(want); ok && (f.earned(when) < want || when > 0 && f.earned(when-1) >= want) {
			t.Fatalf("%d units are not first there at %d in %+v", want, when, f)
		}
	})
}

// The naive model is exact arithmetic on fractions.
func TestFlowIsTheRateWithoutDrift_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := math.Pow(10, rapid.Float64Range(-3, 9).Draw(t, "log rate"))
		f := newFlow(r, rapid.IntRange(1, math.MaxInt32).Draw(t, "burst"), 0)
		at := rapid.Int64Range(0, int64(365*24*time.Hour)).Draw(t, "at")
		want := new(big.Rat).Mul(new(big.Rat).SetFloat64(r), big.NewRat(at, 1e9))
		got := new(big.Rat).Mul(big.NewRat(f.earned(at), 1), new(big.Rat).SetFloat64(math.Ldexp(1, -f.shift)))
		late, _ := want.Sub(want, got).Float64()
		if late < -1e-12*r*float64(at)*1e-9 || // the rate is a float64
			late > 3e-9*r+1e-9 { // what comes in 3 ns
			t.Fatalf("%v/s: %v tokens short after %d ns", r, late, at)
		}
	})
}

// The naive model adds up the rate in small steps.
func TestWarmUpIsAStraightLineFromAThird_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := math.Pow(10, rapid.Float64Range(1, 8).Draw(t, "log rate"))
		warm := time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "warm"))
		f := newFlow(r, 1000, warm)
		const steps = 3000
		sum := 0.0
		for i := range 2 * steps {
			part := (float64(i) + 0.5) / steps
			sum += r * min(1, (1+2*part)/3) * warm.Seconds() / steps
			got := math.Ldexp(float64(f.earned(int64(float64(warm)*float64(i+1)/steps))), -f.shift)
			if math.Abs(got-sum) > 1e-6*sum+1e-6*r {
				t.Fatalf("%v/s over %v: %v tokens at step %d, want %v", r, warm, got, i, sum)
			}
		}
	})
}

// The clock of a process may be read by one thread before another and used after it. x/time/rate credits the time between
// again at each such step: this is where it is not our model.
func TestTokenBucketReadingsOutOfOrderGiveNothing(t *testing.T) {
	t.Parallel()
	const perSecond, burst = 10, 10
	s := newTerms(newFlow(perSecond, burst, 0), 0, 0)
	s.taken.Store(-s.depth)
	peer, origin := rate.NewLimiter(perSecond, burst), time.Now()
	ours, theirs := 0, 0
	for i := range 2000 {
		at := time.Hour
		if i%2 == 1 {
			at = 0
		}
		if _, ok := s.take(s.earned(int64(at)), s.depth, s.one); ok {
			ours++
		}
		if peer.AllowN(origin.Add(at), 1) {
			theirs++
		}
	}
	assert.Equal(t, ours, burst, "the burst, once")
	assert.True(t, theirs > 10*burst, "x/time/rate let ", theirs, " through: has it been mended?")
}

func TestRescaleKeepsTokens_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.Int64Range(-maxDepth, maxDepth).Draw(t, "units")
		by := rapid.IntRange(-2000, 2000).Draw(t, "by")
		got := rescale(units, by)
		want := new(big.Float).SetPrec(3000).SetMantExp(new(big.Float).SetInt64(units), by)
		low, high := big.NewFloat(-maxDepth), big.NewFloat(maxDepth)
		if want.Cmp(low) < 0 {
			want = low
		}
		if want.Cmp(high) > 0 {
			want = high
		}
		diff := new(big.Float).SetPrec(3000).Sub(want, new(big.Float).SetInt64(got))
		if diff.Sign() < 0 || diff.Cmp(big.NewFloat(1)) >= 0 {
			t.Fatalf("rescale(%d, %d) = %d, want %v rounded down", units, by, got, want)
		}
	})
}

func TestGapsAddUpWithoutDrift_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := math.Pow(10, rapid.Float64Range(-2, 9).Draw(t, "log rate"))
		n := rapid.IntRange(0, 1_000_000).Draw(t, "n")
		m := moment{ns: rapid.Int64Range(0, 1e15).Draw(t, "from")}
		want := float64(n) / r * 1e9
		got := m.plus(gapOf(r), n)
		diff := float64(got.ns-m.ns) + float64(got.frac)/(1<<32) - want
		if math.Abs(diff) > 1e-3+want*1e-12 {
			t.Fatalf("%d gaps at %v/s are off by %v ns", n, r, diff)
		}
	})
	assert.Equal(t, moment{}.plus(gapOf(1e-300), math.MaxInt).after(0), never)
	assert.Equal(t, moment{}.plus(gapOf(math.Inf(1)), math.MaxInt).after(0), 0)
	assert.Equal(t, moment{}.plus(gapOf(0), 1).after(0), never)
}
