package protection_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func newLeaky(t *testing.T, o protection.LeakyBucketOptions) *protection.LeakyBucket {
	t.Helper()
	b, err := protection.NewLeakyBucket(o)
	assert.NoError(t, err)
	return b
}

// line queues callers one after another and notes when each was served, by its place.
type line struct {
	t     *testing.T
	b     *protection.LeakyBucket
	start time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex
	at    map[int]time.Duration
	errs  map[int]error
}

func newLine(t *testing.T, b *protection.LeakyBucket) *line {
	t.Helper()
	return &line{t: t, b: b, start: time.Now(), at: map[int]time.Duration{}, errs: map[int]error{}}
}

func (l *line) join(ctx context.Context, place int) {
	l.wg.Go(func() {
		_, err := l.b.Acquire(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.errs[place] = err
			return
		}
		l.at[place] = time.Since(l.start)
	})
	synctest.Wait()
}

func (l *line) served() int {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.at)
}

func TestLeakyBucketSpacesItsCallersEvenly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newLeaky(t, protection.LeakyBucketOptions{Rate: 3, MaxQueue: 10})
		for range 2 {
			l := newLine(t, b)
			for i := range 7 {
				l.join(t.Context(), i)
			}
			assert.Equal(t, b.Queued(), 6)
			l.wg.Wait()
			assert.Equal(t, b.Queued(), 0)
			for i := range 7 {
				assert.Equal(t, l.at[i], time.Duration(math.Ceil(float64(i)*1e9/3)), "in the order of arrival, without a drift")
			}
			advance(time.Minute) // and a rest saves up nothing
		}
	})
}

func TestLeakyBucketRefusesWhatItsQueueCannotHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newLeaky(t, protection.LeakyBucketOptions{Name: "mail", Rate: 10, MaxQueue: 2})
		l := newLine(t, b)
		for i := range 3 {
			l.join(t.Context(), i)
		}
		advance(30 * time.Millisecond)
		assert.Equal(t, *refused(t, b, protection.ErrFull), protection.RejectedError{
			Name: "mail", Policy: "leaky bucket", Reason: protection.ErrFull, RetryAfter: 70 * time.Millisecond,
		})
		advance(70 * time.Millisecond)
		synctest.Wait()
		l.join(t.Context(), 3) // one place is free
		l.wg.Wait()
		assert.Equal(t, l.at[3], 300*time.Millisecond)

		none := newLeaky(t, protection.LeakyBucketOptions{Rate: 10, MaxQueue: -1})
		calls(t, none, 1, protection.Success)
		assert.Equal(t, refused(t, none, protection.ErrFull).RetryAfter, 100*time.Millisecond)
		advance(100 * time.Millisecond)
		calls(t, none, 1, protection.Success)
	})
}

func TestLeakyBucketTurnAfterTheDeadlineFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newLeaky(t, protection.LeakyBucketOptions{Rate: 10})
		l := newLine(t, b)
		for i := range 3 {
			l.join(t.Context(), i)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond-1)
		defer cancel()
		_, err := b.Acquire(ctx)
		assert.ErrorIs(t, err, protection.ErrLimited)
		assert.Equal(t, assert.ErrorAs[*protection.RejectedError](t, err).RetryAfter, 300*time.Millisecond)
		assert.Equal(t, time.Since(start), 0)
		l.wg.Wait()
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		advance(time.Second)
		_, err = b.Acquire(dead)
		assert.Equal(t, err, context.Canceled)
		calls(t, b, 1, protection.Success)
	})
}

func TestLeakyBucketThoseBehindACancelledCallerMoveUp(t *testing.T) {
	t.Parallel()
	for _, leaves := range []int{1, 3, 5} { // the first, one in the middle, the last
		synctest.Test(t, func(t *testing.T) {
			b := newLeaky(t, protection.LeakyBucketOptions{Rate: 10})
			l := newLine(t, b)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range 6 {
				if i == leaves {
					l.join(ctx, i)
					continue
				}
				l.join(t.Context(), i)
			}
			advance(50 * time.Millisecond)
			cancel()
			synctest.Wait()
			assert.Equal(t, b.Queued(), 4)
			advance(time.Second)
			assert.Equal(t, l.served(), 5)
			l.wg.Wait()
			assert.Equal(t, l.errs[leaves], context.Canceled)
			turn := 0
			for i := range 6 {
				if i == leaves {
					continue
				}
				assert.Equal(t, l.at[i], time.Duration(turn)*100*time.Millisecond, "caller ", i)
				turn++
			}
		})
	}
}

func TestLeakyBucketRateChangesLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newLeaky(t, protection.LeakyBucketOptions{Rate: 1000, MaxQueue: 100})
		l := newLine(t, b)
		for i := range 10 {
			l.join(t.Context(), i)
		}
		assert.NoError(t, b.SetRate(1))
		advance(2500 * time.Millisecond)
		assert.Equal(t, l.served(), 3)
		assert.NoError(t, b.SetRate(0))
		advance(time.Hour)
		assert.Equal(t, l.served(), 3)
		assert.Equal(t, refused(t, b, protection.ErrLimited).RetryAfter, math.MaxInt64, "closed")
		assert.NoError(t, b.SetRate(1000))
		advance(2 * time.Millisecond)
		assert.True(t, l.served() >= 6)
		assert.NoError(t, b.SetRate(math.Inf(1)))
		assert.Equal(t, l.served(), 10)
		assert.Equal(t, takes(t, b, 1000), 1000)
		assert.NoError(t, b.SetRate(1e-300))
		assert.Error(t, b.SetRate(-1))
		assert.Error(t, b.SetRate(math.NaN()))
		l.wg.Wait()
	})
}

func TestLeakyBucketOptions(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
		_, err := protection.NewLeakyBucket(protection.LeakyBucketOptions{Rate: rate})
		assert.Error(t, err)
		assert.True(t, strings.Contains(err.Error(), "LeakyBucketOptions.Rate is "), err)
	}
	for _, rate := range []float64{1e-300, 1e300, math.Inf(1)} {
		calls(t, newLeaky(t, protection.LeakyBucketOptions{Rate: rate}), 1, protection.Success)
	}
}

// Callers come, go and are cancelled at random: turns stay apart, nobody is lost, and no turn is wasted while one waits.
func TestLeakyBucketLosesNoTurn_stress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newLeaky(t, protection.LeakyBucketOptions{Rate: 100, MaxQueue: 10})
		var mu sync.Mutex
		var served []time.Time
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 20 { // twice as many as there is room for
			wg.Go(func() {
				for ctx.Err() == nil {
					mine, done := context.WithCancel(ctx)
					stop := time.AfterFunc(time.Duration(rand.Int64N(int64(400*time.Millisecond))), done)
					_, err := b.Acquire(mine)
					if err == nil {
						mu.Lock()
						served = append(served, time.Now())
						mu.Unlock()
					}
					stop.Stop()
					done()
					advance(time.Duration(rand.Int64N(int64(20 * time.Millisecond))))
				}
			})
		}
		advance(5 * time.Second)
		cancel()
		wg.Wait()
		assert.Equal(t, b.Queued(), 0)
		for i := range served[1:] {
			assert.Equal(t, served[i+1].Sub(served[i]), 10*time.Millisecond)
		}
		assert.True(t, len(served) >= 500, len(served))
	})
}
