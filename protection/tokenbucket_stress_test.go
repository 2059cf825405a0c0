package protection_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// Time stands still, so exactly the burst is there to be taken, however often the rate changes meanwhile.
func TestTokenBucketChangesLoseNoTokenAndGiveNoneTwice_stress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for round := range 20 {
			const burst = 5000
			b := newBucket(t, protection.TokenBucketOptions{Rate: 1e6, Burst: burst})
			var admitted atomic.Int64
			together(10, func(i int) {
				if i < 2 {
					for n := range 300 {
						assert.NoError(t, b.SetRate([]float64{1e6, 1, 33_333, 0}[n%4]))
						assert.NoError(t, b.SetBurst(burst+n*(i+1)))
					}
					return
				}
				for range burst / 4 {
					if b.AllowN(1 + i%3) {
						admitted.Add(int64(1 + i%3))
					}
				}
			})
			for b.AllowN(1) {
				admitted.Add(1)
			}
			assert.Equal(t, admitted.Load(), burst, "round ", round)
		}
	})
}

func TestTokenBucketWithAClockNeverExceedsItsRate_stress(t *testing.T) {
	t.Parallel()
	clock := protection.NewClock()
	defer clock.Close()
	b := newBucket(t, protection.TokenBucketOptions{Rate: 1e5, Burst: 5000, Clock: clock})
	start := time.Now()
	var admitted atomic.Int64
	together(16, func(int) {
		for range 5000 {
			if b.AllowN(1) {
				admitted.Add(1)
			}
		}
	})
	most := int64(time.Since(start).Seconds()*1e5) + 5000
	assert.True(t, admitted.Load() <= most && admitted.Load() >= 4400, admitted.Load(), " of at most ", most)
}
