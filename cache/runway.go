package cache

import (
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// runway tells how long the stale answers that cover failing loads would last, because they hide an outage until they
// run out. It is the shortest remaining stale life among the answers of the last few seconds.
type runway struct {
	source   string
	full     time.Duration
	observer observe.Observer

	mu      sync.Mutex
	windows [2]shortage // of this span and the one before
	span    int64
	raised  bool
}

type shortage struct {
	seen  bool
	until int64 // when its value ends
}

// runwaySpan is how long an answer counts, at least; at most twice as long.
const runwaySpan = int64(5 * time.Second)

func newRunway(source string, full time.Duration, o observe.Observer) *runway {
	return &runway{source: source, full: full, observer: o}
}

// note counts a stale answer whose value may be used until the given time, and raises an alarm when less than a
// quarter of StaleIfError is left.
func (r *runway) note(until, now int64) {
	left := time.Duration(until - now)
	r.mu.Lock()
	r.turn(now)
	w := &r.windows[0]
	if !w.seen || until < w.until {
		*w = shortage{true, until}
	}
	raise := !r.raised && left < r.full/4
	r.raised = r.raised || raise
	r.mu.Unlock()
	if raise {
		observe.Emit(r.observer, observe.Event{
			Kind: observe.Alarm, Level: observe.Critical, Source: r.source, Duration: left,
			Message: "stale answers hide failing loads and are about to run out",
		})
	}
}

// left returns the runway at now, and whether there were stale answers at all.
func (r *runway) left(now int64) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	a, b := r.windows[0], r.windows[1]
	until := min(a.until, b.until)
	switch {
	case !a.seen:
		until = b.until
	case !b.seen:
		until = a.until
	}
	return time.Duration(max(until-now, 0)), a.seen || b.seen
}

// turn begins a new span when the current one is over. The alarm may be raised again once two spans were without need.
func (r *runway) turn(now int64) {
	span := now / runwaySpan
	switch ahead := span - r.span; {
	case ahead <= 0: // below zero: answers do not come in the order of their times
		return
	case ahead == 1:
		r.windows = [2]shortage{{}, r.windows[0]}
	default:
		r.windows = [2]shortage{}
	}
	r.span = span
	if !r.windows[1].seen || time.Duration(r.windows[1].until-now) >= r.full/4 {
		r.raised = false
	}
}
