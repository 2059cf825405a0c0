package protection_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/protection"
)

// checkInBubbles is rapid.Check with a bubble for each case. What rapid throws to end a case may not leave a bubble by itself.
func checkInBubbles(t *testing.T, prop func(*testing.T, *rapid.T) error) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		var thrown any
		var err error
		synctest.Test(t, func(t *testing.T) {
			defer func() { thrown = recover() }()
			err = prop(t, r)
		})
		if thrown != nil {
			panic(thrown)
		}
		if err != nil {
			r.Fatal(err)
		}
	})
}

// Whatever happens in whatever order, the bucket gives what golang.org/x/time/rate gives and has as many tokens left. Where
// either is within its rounding errors of what is asked for, and not full, time goes on a little first: a change of the
// rate rounds down what is left in ours, by what comes in a nanosecond or two.
func TestTokenBucketIsLikeXTimeRate_property(t *testing.T) {
	t.Parallel()
	checkInBubbles(t, func(t *testing.T, r *rapid.T) error {
		t.Helper()
		perSecond := math.Pow(10, rapid.Float64Range(-1, 6).Draw(r, "log rate"))
		burst := rapid.IntRange(1, 1000).Draw(r, "burst")
		ours := newBucket(t, protection.TokenBucketOptions{Rate: perSecond, Burst: burst})
		peer := rate.NewLimiter(rate.Limit(perSecond), burst)
		peer.AllowN(time.Now(), 0)   // it is full from here on
		eps := 1e-5 + 5e-9*perSecond // what comes in 5 ns, and the peer's own error
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "what") {
			case 0:
				perSecond = math.Pow(10, rapid.Float64Range(-1, 6).Draw(r, "log rate"))
				eps += 5e-9 * perSecond
				peer.SetLimitAt(time.Now(), rate.Limit(perSecond))
				if err := ours.SetRate(perSecond); err != nil {
					return err
				}
			case 1:
				burst = rapid.IntRange(1, 1000).Draw(r, "burst")
				eps += 5e-9 * perSecond
				peer.SetBurstAt(time.Now(), burst)
				if err := ours.SetBurst(burst); err != nil {
					return err
				}
			case 2, 3, 4:
				advance(time.Duration(rapid.Float64Range(0, 2).Draw(r, "tokens") / perSecond * 1e9))
			default:
				n := rapid.IntRange(1, max(1, burst/2)+1).Draw(r, "n")
				unsure := func(tokens float64) bool { return math.Abs(tokens-float64(n)) < eps && tokens < float64(burst) }
				for unsure(peer.Tokens()) || unsure(ours.Tokens()) {
					advance(time.Duration(2*eps/perSecond*1e9) + 1)
				}
				if got, want := ours.AllowN(n), peer.AllowN(time.Now(), n); got != want {
					return fmt.Errorf("AllowN(%d) is %v, want %v; %v tokens against %v", n, got, want, ours.Tokens(), peer.Tokens())
				}
			}
			if got, want := ours.Tokens(), peer.Tokens(); math.Abs(got-want) > eps {
				return fmt.Errorf("%v tokens, want %v", got, want)
			}
		}
		return nil
	})
}

// A refusal says to the nanosecond when the tokens will be there.
func TestTokenBucketRetryAfterIsExact_property(t *testing.T) {
	t.Parallel()
	checkInBubbles(t, func(t *testing.T, r *rapid.T) error {
		t.Helper()
		b := newBucket(t, protection.TokenBucketOptions{
			Rate:   math.Pow(10, rapid.Float64Range(-1, 9).Draw(r, "log rate")),
			Burst:  rapid.IntRange(1, 100).Draw(r, "burst"),
			WarmUp: time.Duration(rapid.Int64Range(0, 3).Draw(r, "warm")) * time.Second,
		})
		for range 20 {
			advance(time.Duration(rapid.Int64Range(0, 1e9).Draw(r, "rest")))
			for b.AllowN(1) { // until there is none
			}
			before := b.Position()
			_, err := b.Acquire(t.Context())
			refusal, ok := errors.AsType[*protection.RejectedError](err)
			if !ok || refusal.RetryAfter <= 0 {
				return fmt.Errorf("no time to wait for: %w", err)
			}
			advance(refusal.RetryAfter - 1)
			if b.AllowN(1) {
				return fmt.Errorf("a token is there before %v", refusal.RetryAfter)
			}
			if b.Position() != before {
				return errors.New("refusals have left a trace")
			}
			advance(1)
			if !b.AllowN(1) {
				return fmt.Errorf("no token after %v", refusal.RetryAfter)
			}
		}
		return nil
	})
}

// With coarse time too, no window of time has more than Rate·t + Burst, and only a little of a burst is missing.
func TestTokenBucketWithAClockHoldsItsBoundInEveryWindow_property(t *testing.T) {
	t.Parallel()
	checkInBubbles(t, func(t *testing.T, r *rapid.T) error {
		t.Helper()
		clock := protection.NewClock()
		defer clock.Close()
		perSecond := math.Pow(10, rapid.Float64Range(1, 5).Draw(r, "log rate"))
		burst := rapid.IntRange(1, 100).Draw(r, "burst")
		b := newBucket(t, protection.TokenBucketOptions{Rate: perSecond, Burst: burst, Clock: clock})
		var admitted []time.Duration
		start := time.Now()
		for range rapid.IntRange(1, 15).Draw(r, "steps") {
			advance(time.Duration(rapid.Int64Range(0, 12e6).Draw(r, "rest")))
			for range rapid.IntRange(1, burst+10).Draw(r, "calls") {
				if b.AllowN(1) {
					admitted = append(admitted, time.Since(start))
				}
			}
		}
		for i := range admitted {
			for j := i; j < len(admitted); j++ {
				most := perSecond*(admitted[j]-admitted[i]).Seconds() + float64(burst)
				if float64(j-i+1) > most+1e-6 {
					return fmt.Errorf("%d within %v at %v/s and a burst of %d", j-i+1, admitted[j]-admitted[i], perSecond, burst)
				}
			}
		}
		advance(time.Duration(float64(burst+1)/perSecond*1e9) + 1) // it is full again
		got := 0
		for b.AllowN(1) {
			got++
		}
		missing := 0.005*perSecond + 1 // what a tick of the clock gives
		if 10*missing > float64(burst) {
			missing = 0 // too much of it: the bucket does not look at the clock
		}
		if got > burst || float64(got) < float64(burst)-missing {
			return fmt.Errorf("a burst of %d, want %d", got, burst)
		}
		return nil
	})
}
