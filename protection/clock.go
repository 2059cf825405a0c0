package protection

import (
	"sync/atomic"
	"time"

	"github.com/snowshed-go/snowshed/internal/clock"
)

// Clock is monotonic time at the price of one atomic load or two: a reading that a goroutine refreshes every 5 ms. Policies
// that are given one by their options read it instead of the clock of the system (which costs 30 to 50 ns) wherever 5 ms
// do not matter. One Clock serves any number of policies. Safe for concurrent use.
type Clock struct {
	inner  *clock.Clock
	closed atomic.Bool
}

// NewClock returns a running clock, whose goroutine lives until Close.
func NewClock() *Clock { return &Clock{inner: clock.Start()} }

// Close ends the clock's goroutine and waits for it. Policies that use the clock go on, with exact readings. Calls after
// the first do nothing.
func (c *Clock) Close() {
	c.closed.Store(true)
	c.inner.Stop()
}

// timeline is the time of one policy in nanoseconds, which no step of the wall clock moves.
type timeline struct {
	clock *Clock    // nil: exact readings only
	base  time.Time // for those
}

func newTimeline(c *Clock) timeline { return timeline{clock: c, base: time.Now()} }

// now returns the time, coarse if there is a Clock. It may be 5 ms behind exact, on the same goroutine too.
func (t *timeline) now() int64 {
	if c := t.clock; c != nil && !c.closed.Load() {
		return c.inner.Coarse()
	}
	return t.exact()
}

// exact returns the time as exactly as the system can tell.
func (t *timeline) exact() int64 {
	if t.clock == nil {
		return int64(time.Since(t.base))
	}
	return t.clock.inner.Now()
}
