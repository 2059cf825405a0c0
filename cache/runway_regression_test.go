package cache

import (
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
)

// Two answers at the turn of a span are noted in the wrong order: the second to come forgot everything, and the alarm
// was raised again.
func TestRunwayKeepsWhatItKnowsWhenTimesComeInTheWrongOrder(t *testing.T) {
	alarms := 0
	r := newRunway("things", 100*time.Second, observe.Func(func(observe.Event) { alarms++ }))
	now := 3 * runwaySpan
	r.note(now+int64(time.Second), now)
	for range 5 {
		r.note(now+int64(2*time.Second), now-1)
		r.note(now+int64(2*time.Second), now)
	}
	left, ok := r.left(now)
	assert.True(t, ok)
	assert.Equal(t, left, time.Second)
	assert.Equal(t, alarms, 1)
}
