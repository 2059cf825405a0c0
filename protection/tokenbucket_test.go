package protection_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func newBucket(t *testing.T, o protection.TokenBucketOptions) *protection.TokenBucket {
	t.Helper()
	b, err := protection.NewTokenBucket(o)
	assert.NoError(t, err)
	return b
}

// takes counts how many of n calls in a row are admitted.
func takes(t *testing.T, p protection.Policy, n int) int {
	t.Helper()
	admitted := 0
	for range n {
		permit, err := p.Acquire(t.Context())
		if err != nil {
			assert.ErrorIs(t, err, protection.ErrLimited)
			continue
		}
		permit.Done(protection.Success)
		admitted++
	}
	return admitted
}

func TestTokenBucketAdmitsBurstThenRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Name: "db", Rate: 100, Burst: 5})
		assert.Equal(t, takes(t, b, 50), 5)
		got := refused(t, b, protection.ErrLimited)
		assert.Equal(t, *got, protection.RejectedError{
			Name: "db", Policy: "token bucket", Reason: protection.ErrLimited, RetryAfter: 10 * time.Millisecond,
		})
		advance(got.RetryAfter)
		assert.Equal(t, takes(t, b, 50), 1, "after RetryAfter there is one")
		advance(60 * time.Second)
		assert.Equal(t, takes(t, b, 1000), 5, "a rest saves up the burst only")
	})
}

func TestTokenBucketRefusalLeavesTheStateBitForBit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := protection.NewClock()
		defer clock.Close()
		for _, c := range []*protection.Clock{nil, clock} {
			b := newBucket(t, protection.TokenBucketOptions{Rate: 1, Burst: 2, Clock: c})
			calls(t, b, 1, protection.Success)
			before := b.Position()
			_, err := b.AcquireN(t.Context(), 2)
			assert.ErrorIs(t, err, protection.ErrLimited)
			assert.True(t, !b.AllowN(3) && !b.AllowN(0) && !b.AllowN(-5))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			assert.ErrorIs(t, b.WaitN(ctx, 2), protection.ErrLimited)
			cancel()
			assert.Equal(t, b.Position(), before)
			calls(t, b, 1, protection.Success)
			for range 999 {
				refused(t, b, protection.ErrLimited)
				advance(time.Millisecond)
			}
			refused(t, b, protection.ErrLimited)
			advance(time.Millisecond)
			calls(t, b, 1, protection.Success)
		}
	})
}

func TestTokenBucketHoldsItsRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1, 3, 10, 1000, 33_333, 1e6, 7e6, 9_999_991, 1e7} {
		synctest.Test(t, func(t *testing.T) {
			burst := int(max(2, rate/10))
			b := newBucket(t, protection.TokenBucketOptions{Rate: rate, Burst: burst})
			assert.True(t, b.AllowN(burst) && !b.AllowN(1), "the burst")
			admitted := 0
			for range 6000 {
				advance(10 * time.Millisecond)
				if n := int(b.Tokens()); n > 0 && b.AllowN(n) {
					admitted += n
				}
				assert.True(t, !b.AllowN(1), "all have been taken")
			}
			want := 60 * rate
			assert.True(t, math.Abs(float64(admitted)-want) <= max(1, want/1e6), fmt.Sprint(rate, "/s: ", admitted))
		})
	}
}

func TestTokenBucketDefaultBurstIsATenthOfASecond(t *testing.T) {
	t.Parallel()
	for rate, burst := range map[float64]int{0.5: 1, 19: 1, 20: 2, 1000: 100, math.Inf(1): math.MaxInt32} {
		b := newBucket(t, protection.TokenBucketOptions{Rate: rate})
		assert.True(t, b.AllowN(burst), rate)
		assert.Equal(t, b.AllowN(burst), math.IsInf(rate, 1), rate)
	}
}

// One by one, as fast as they come: no part of a nanosecond is lost between them.
func TestTokenBucketHoldsItsRateTokenByToken(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e5, 7e6, 1e7} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, protection.TokenBucketOptions{Rate: rate, Burst: 1})
			calls(t, b, 1, protection.Success)
			start := time.Now()
			const n = 2000
			for range n {
				advance(refused(t, b, protection.ErrLimited).RetryAfter)
				calls(t, b, 1, protection.Success)
			}
			got := n / time.Since(start).Seconds()
			assert.True(t, math.Abs(got-rate) < rate/1000*8, fmt.Sprint(rate, "/s: ", got)) // whole nanoseconds of waiting
		})
	}
}

func TestTokenBucketExtremes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, takes(t, newBucket(t, protection.TokenBucketOptions{Rate: math.Inf(1)}), 10_000), 10_000)
		slow := newBucket(t, protection.TokenBucketOptions{Rate: 1e-300})
		assert.Equal(t, takes(t, slow, 10), 1)
		assert.Equal(t, refused(t, slow, protection.ErrLimited).RetryAfter, time.Duration(math.MaxInt64))
	})
}

func TestTokenBucketDeadContextTakesNoToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := b.Acquire(ctx)
		assert.Equal(t, err, context.Canceled)
		calls(t, b, 1, protection.Success)
	})
}

func TestTokenBucketCostsMoreThanOneToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Name: "bytes", Rate: 1000, Burst: 1000})
		_, err := b.AcquireN(t.Context(), 600)
		assert.NoError(t, err)
		_, err = b.AcquireN(t.Context(), 500)
		assert.Equal(t, assert.ErrorAs[*protection.RejectedError](t, err).RetryAfter, 100*time.Millisecond)
		assert.True(t, b.AllowN(400))
		assert.Equal(t, b.Tokens(), 0)
		_, err = b.AcquireN(t.Context(), 1001)
		assert.Equal(t, assert.ErrorAs[*protection.RejectedError](t, err).RetryAfter, math.MaxInt64, "more than the burst: never")
		for _, n := range []int{0, -1, math.MinInt} {
			_, err = b.AcquireN(t.Context(), n)
			assert.Error(t, err)
			assert.True(t, !errors.Is(err, protection.ErrRejected), "a mistake of the caller's")
		}
	})
}

func TestTokenBucketRestOf60SecondsSavesUpTheBurstOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := protection.NewClock()
		defer clock.Close()
		for _, c := range []*protection.Clock{nil, clock} {
			for _, burst := range []int{1, 5, 100} {
				b := newBucket(t, protection.TokenBucketOptions{Rate: 100, Burst: burst, Clock: c})
				takes(t, b, 1000)
				advance(time.Minute)
				got := takes(t, b, 1000)
				assert.True(t, got == burst || c != nil && got == burst-1, got, " of ", burst) // half a token comes in a tick
			}
		}
	})
}

func TestTokenBucketRateChangesLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1000, Burst: 100})
		assert.Equal(t, takes(t, b, 60), 60)
		assert.NoError(t, b.SetRate(1))
		assert.Equal(t, b.Tokens(), 40, "what was left is left")
		assert.Equal(t, takes(t, b, 100), 40)
		advance(10 * time.Second)
		assert.Equal(t, takes(t, b, 100), 10)
		assert.Equal(t, refused(t, b, protection.ErrLimited).RetryAfter, time.Second)
		assert.NoError(t, b.SetRate(1000))
		assert.Equal(t, refused(t, b, protection.ErrLimited).RetryAfter, time.Millisecond)
		advance(50 * time.Millisecond)
		assert.Equal(t, takes(t, b, 1000), 50)
		advance(time.Minute)
		assert.Equal(t, takes(t, b, 1000), 100, "the burst is as it was")

		assert.NoError(t, b.SetBurst(10))
		advance(time.Minute)
		assert.Equal(t, takes(t, b, 1000), 10)
		assert.NoError(t, b.SetBurst(1000))
		assert.Equal(t, takes(t, b, 1000), 0, "room is not tokens")
		advance(time.Second)
		assert.Equal(t, takes(t, b, 2000), 1000)
	})
}

func TestTokenBucketRateZeroIsClosedAndInfIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 10, Burst: 3})
		assert.NoError(t, b.SetRate(0))
		assert.Equal(t, takes(t, b, 10), 3, "what was there")
		advance(24 * time.Hour)
		assert.Equal(t, refused(t, b, protection.ErrLimited).RetryAfter, math.MaxInt64)
		assert.ErrorIs(t, b.Wait(t.Context()), protection.ErrLimited, "does not wait for ever")
		assert.NoError(t, b.SetRate(math.Inf(1)))
		assert.Equal(t, takes(t, b, 1000), 1000)
		assert.True(t, b.AllowN(math.MaxInt) && !b.AllowN(0))
		assert.Equal(t, b.Tokens(), math.Inf(1))
		assert.NoError(t, b.SetRate(10))
		assert.Equal(t, takes(t, b, 10), 3)
		assert.NoError(t, b.SetRate(0))
		assert.NoError(t, b.SetRate(10))
		advance(100 * time.Millisecond)
		assert.Equal(t, takes(t, b, 10), 1)
		for _, r := range []float64{-1, math.NaN(), math.Inf(-1)} {
			assert.Error(t, b.SetRate(r))
		}
		for _, n := range []int{0, -1} {
			assert.Error(t, b.SetBurst(n))
		}
		advance(100 * time.Millisecond)
		assert.Equal(t, takes(t, b, 10), 1, "as before")
	})
}

func TestTokenBucketOptionsOfTheWarmUp(t *testing.T) {
	t.Parallel()
	_, err := protection.NewTokenBucket(protection.TokenBucketOptions{Rate: 1, WarmUp: -1})
	assert.Error(t, err)
	assert.True(t, strings.Contains(err.Error(), "TokenBucketOptions.WarmUp is "), err)
}
