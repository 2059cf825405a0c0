package protection

import (
	"fmt"
	"log/slog"

	"github.com/snowshed-go/snowshed/observe"
)

// trips returns why the breaker is to trip, or nothing. Calls that are overdue count as timeouts.
func (r *rules) trips(n *counts, overdue uint64) string {
	total, bad := n.judged()+overdue, n.bad()+overdue
	if total <= uint64(r.MinCalls) { //nolint:gosec // not negative: validated
		return ""
	}
	if more(bad, total, r.failurePart) {
		hang := ""
		if overdue > 0 {
			hang = fmt.Sprintf(", of which %d are overdue", overdue)
		}
		return fmt.Sprintf("%d of %d calls failed or timed out within %v%s", bad, total, r.Window, hang)
	}
	if r.SlowAfter > 0 && more(n[slow]+overdue, total, r.slowPart) {
		return fmt.Sprintf("%d of %d calls took longer than %v within %v", n[slow]+overdue, total, r.SlowAfter, r.Window)
	}
	return ""
}

// more reports whether n is more than the part of total. Nothing is more than everything, so there all of it is enough.
func more(n, total, part uint64) bool { return n*whole > part*total || n == total }

// event returns an event of the breaker's.
func (r *rules) event(kind observe.Kind, message string) observe.Event {
	level := observe.Info
	if kind == observe.BreakerOpened {
		level = observe.Critical
	}
	if r.Shadow {
		level, message = observe.Info, "shadow mode: "+message
	}
	return observe.Event{Kind: kind, Level: level, Source: r.Name, Message: message}
}

// alarm returns an event of the alarm that trial calls hang.
func (r *rules) alarm(phase observe.Phase, level observe.Level, message string, evidence ...slog.Attr) observe.Event {
	e := r.event(observe.Alarm, message)
	e.Level = level
	e.Alarm = &observe.AlarmState{Cause: "trial calls hang", Phase: phase, Evidence: evidence}
	return e
}
