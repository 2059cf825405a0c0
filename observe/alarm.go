package observe

import (
	"log/slog"
	"time"
)

// Phase says where an alarm is in its life.
type Phase uint8

// The phases of an alarm.
const (
	Raised  Phase = iota + 1 // it begins, or has become more urgent
	StillOn                  // a reminder, at growing intervals, or it has become less urgent
	Cleared                  // its cause has gone
)

// String returns "raised", "still on" or "cleared".
func (p Phase) String() string {
	switch p {
	case Raised:
		return "raised"
	case StillOn:
		return "still on"
	case Cleared:
		return "cleared"
	default:
		return "unknown"
	}
}

// AlarmState is what an event of the kind [Alarm] adds. It is shared by all who get the event and must not be modified.
type AlarmState struct {
	Cause    string      // what is wrong, the same in all events of one alarm: there is one alarm for a source and a cause
	Phase    Phase       // where it is in its life
	Since    time.Time   // when it was raised
	Evidence []slog.Attr // what it rests on: counts, rates, thresholds
}

// attrs returns the state for a log.
func (a *AlarmState) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("cause", a.Cause), slog.String("phase", a.Phase.String())}
	if len(a.Evidence) > 0 {
		attrs = append(attrs, slog.Attr{Key: "evidence", Value: slog.GroupValue(a.Evidence...)})
	}
	return attrs
}

// All returns an Observer that tells each of os in turn. A panic in one does not keep the event from the others.
func All(os ...Observer) Observer {
	return Func(func(e Event) {
		for _, o := range os {
			Emit(o, e)
		}
	})
}
