package protection

import (
	"log/slog"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// Signal is a number that [Alarms] watch.
type Signal struct {
	Source string         // the name of what is watched
	Cause  string         // what would be wrong with it, such as "failures"; required
	Read   func() Reading // reads it, quickly; required; must be safe for concurrent use
}

// Reading is a signal at one instant. It is critical from Critical up, a warning from Warn up; a threshold of 0 is none.
type Reading struct {
	Value, Warn, Critical float64

	Message  string      // one sentence for a person; empty: the numbers in a sentence
	Err      error       // the last error of the cause, if one is known
	Evidence []slog.Attr // counts, rates, thresholds; value, warn and critical are added
}

// level returns the level of the reading, with the thresholds lowered by a part of them.
func (r *Reading) level(lowered float64) observe.Level {
	reaches := func(threshold float64) bool { return threshold > 0 && r.Value >= threshold*(1-lowered) }
	switch {
	case reaches(r.Critical):
		return observe.Critical
	case reaches(r.Warn):
		return observe.Warn
	default:
		return observe.Info
	}
}

// alarm is the state of one signal.
type alarm struct {
	level observe.Level // Info while it is off
	since time.Time     // when it was raised
	calm  time.Time     // since when the signal has been below the level; zero: it is not
	peak  observe.Level // the highest level that the signal has been at since calm

	remind   time.Time
	interval time.Duration
	last     observe.Event
}

// update takes a reading and returns an event if there is something to tell.
func (a *alarm) update(o *AlarmsOptions, s Signal, r *Reading, now time.Time) (event observe.Event, news bool) {
	up, down := r.level(0), r.level(o.Hysteresis)
	switch {
	case up > a.level:
		if a.level == observe.Info {
			a.since = now
		}
		a.level, a.calm, a.interval = up, time.Time{}, o.RemindIn
		return a.tell(s, r, now, observe.Raised), true
	case down >= a.level:
		a.calm = time.Time{}
	case a.calm.IsZero():
		a.calm, a.peak = now, down
	case now.Sub(a.calm) < o.ClearAfter:
		a.peak = max(a.peak, down)
	default:
		a.level, a.calm = max(a.peak, down), time.Time{}
		if a.level == observe.Info {
			return a.tell(s, r, now, observe.Cleared), true
		}
		return a.tell(s, r, now, observe.StillOn), true
	}
	if a.level == observe.Info || now.Before(a.remind) {
		return event, false
	}
	a.interval = min(2*a.interval, o.RemindMost)
	return a.tell(s, r, now, observe.StillOn), true
}

// tell makes the event, and starts the time to the next reminder.
func (a *alarm) tell(s Signal, r *Reading, now time.Time, phase observe.Phase) observe.Event {
	a.remind = now.Add(a.interval)
	evidence := []slog.Attr{slog.Float64("value", r.Value)}
	if r.Warn > 0 {
		evidence = append(evidence, slog.Float64("warn", r.Warn))
	}
	if r.Critical > 0 {
		evidence = append(evidence, slog.Float64("critical", r.Critical))
	}
	evidence = append(evidence, r.Evidence...)
	a.last = observe.Event{
		At: now, Kind: observe.Alarm, Level: a.level, Source: s.Source, Message: r.Message, Err: r.Err, Duration: now.Sub(a.since),
		Alarm: &observe.AlarmState{Cause: s.Cause, Phase: phase, Since: a.since, Evidence: evidence},
	}
	if a.last.Message == "" {
		a.last.Message = s.Cause + " " + phase.String()
	}
	return a.last
}
