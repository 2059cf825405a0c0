package protection_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// drained counts what b gives in d.
func drained(b *protection.TokenBucket, d time.Duration) float64 {
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); {
		advance(d / 100)
		for b.AllowN(1) {
			n++
		}
	}
	return float64(n)
}

func near(t *testing.T, got, want float64, what string) {
	t.Helper()
	assert.True(t, math.Abs(got-want) <= 0.01*want+1, what, ": ", got, ", want ", want)
}

func TestWarmUpRisesFromAThirdToTheWholeRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 3000, Burst: 300, WarmUp: 10 * time.Second})
		cold := func(what string) {
			t.Helper()
			assert.Equal(t, takes(t, b, 1000), 100, what, ": a third of the burst")
			near(t, drained(b, time.Second), 1100, what+": first second")
			near(t, drained(b, 4*time.Second), 4*1000+2400, what+": to the middle")
			near(t, drained(b, 4*time.Second), 4*1000+5600, what+": to nine tenths")
			near(t, drained(b, time.Second), 2900, what+": the last tenth")
			near(t, drained(b, 2*time.Second), 6000, what+": warm")
		}
		cold("start")
		advance(time.Minute)
		assert.Equal(t, takes(t, b, 1000), 300, "a rest does not cool")
		advance(time.Minute)
		b.Restart()
		cold("restart")
		assert.Equal(t, takes(t, b, 1), 0)
		b.Restart()
		assert.Equal(t, takes(t, b, 1), 0, "a restart gives no tokens")
		near(t, drained(b, 5*time.Second), 5000+2500, "first half")
		assert.NoError(t, b.SetRate(300))
		near(t, drained(b, 5*time.Second), 5*200+5*50, "a change of the rate goes on warming")
		near(t, drained(b, 5*time.Second), 1500, "warm")
	})
}

func TestWarmUpOfSmallBucketsStartsWithOneToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1, Burst: 1, WarmUp: time.Minute})
		assert.Equal(t, takes(t, b, 5), 1)
		wait := refused(t, b, protection.ErrLimited).RetryAfter
		assert.True(t, wait > 2500*time.Millisecond && wait < 3*time.Second, "a third of the rate: ", wait)
	})
}

func TestRestartWithoutWarmUpDoesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 100, Burst: 100})
		position := b.Position()
		b.Restart()
		assert.Equal(t, b.Position(), position)
		assert.Equal(t, takes(t, b, 1000), 100)
	})
}
