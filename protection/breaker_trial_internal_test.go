package protection

import (
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
)

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
