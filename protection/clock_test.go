package protection

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// Steps of the wall clock reach no policy (sentinel-golang#533): every reading is a difference to a time that has a
// monotonic part.
func TestTimelineIsMonotonic(t *testing.T) {
	t.Parallel()
	line := newTimeline(nil)
	assert.True(t, strings.Contains(line.base.String(), " m="), line.base)
	last := line.now()
	for range 1000 {
		now := line.exact()
		assert.True(t, now >= last && line.now() >= now)
		last = now
	}
}

func TestClockIsLateByATickAndGoesOnWhenClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		line := newTimeline(c)
		start := line.exact()
		pass := func(d time.Duration) { <-time.NewTimer(d).C }
		for n := range int64(1000) {
			pass(777 * time.Microsecond)
			exact := start + (n+1)*int64(777*time.Microsecond)
			late := exact - line.now()
			assert.True(t, late >= 0 && late <= int64(5*time.Millisecond), time.Duration(late))
		}
		c.Close()
		c.Close()
		before := line.now()
		pass(time.Hour)
		assert.Equal(t, line.now(), before+int64(time.Hour))
		assert.Equal(t, line.exact(), before+int64(time.Hour))
	})
}
