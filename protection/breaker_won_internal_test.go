package protection

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
)

// Two callers have seen that the breaker must trip before either trips it: the second one changes and tells nothing.
func TestBreakerTransitionIsWonOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := 0
		b, err := NewBreaker(BreakerOptions{Observer: observe.Func(func(observe.Event) { told++ })})
		assert.NoError(t, err)
		g, r := b.current.Load(), b.rules.Load()
		trip := func() bool {
			return b.become(g, r, func() (*generation, observe.Event) {
				return b.open(r, 0, 1, "test"), r.event(observe.BreakerOpened, "test")
			})
		}
		assert.True(t, trip())
		opened := b.current.Load()
		assert.True(t, !trip())
		assert.True(t, b.current.Load() == opened)
		synctest.Wait()
		assert.Equal(t, told, 1)
	})
}

// Two callers have seen that a trial is due before either takes it: the second one gets none.
func TestBreakerTrialIsWonOnce(t *testing.T) {
	t.Parallel()
	b, err := NewBreaker(BreakerOptions{})
	assert.NoError(t, err)
	b.ForceOpen("test", time.Now())
	g, r := b.current.Load(), b.rules.Load()
	due := g.nextTrial.Load()
	assert.True(t, g.takeTrial(due, due, r))
	assert.True(t, !g.takeTrial(due, due, r))
	assert.Equal(t, g.trials.out(), 1)
	next := g.nextTrial.Load()
	assert.Equal(t, next, due+int64(r.OpenFor))
	assert.True(t, !g.takeTrial(due+1, due, r), "late")
	assert.True(t, g.takeTrial(next, next, r))
}
