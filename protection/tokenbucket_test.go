package protection_test

import (
	"context"
	"fmt"
	"math"
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

func TestTokenBucketRefusalConsumesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1, Burst: 1})
		calls(t, b, 1, protection.Success)
		for range 1000 {
			refused(t, b, protection.ErrLimited)
			advance(time.Millisecond)
		}
		calls(t, b, 1, protection.Success)
	})
}

func TestTokenBucketHoldsItsRate(t *testing.T) {
	t.Parallel()
	for rate, seconds := range map[float64]int{1: 60, 10: 60, 1000: 60, 33333: 3} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket(t, protection.TokenBucketOptions{Rate: rate})
			burst := int(max(1, rate/10))
			assert.Equal(t, takes(t, b, 2*burst), burst, "the default burst")
			admitted := 0
			for range 10 * seconds { // asked for more than there is ten times a second
				advance(100 * time.Millisecond)
				admitted += takes(t, b, burst+1)
			}
			want := float64(seconds) * rate
			assert.True(t, math.Abs(float64(admitted)-want) <= max(1, want/1000), fmt.Sprint(rate, "/s: ", admitted))
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
