package observe

import (
	"context"
	"log/slog"
	"time"
)

// Level says how urgent an event is.
type Level uint8

// The levels of an event, in rising urgency.
const (
	Info     Level = iota // something happened that an operator may want to count
	Warn                  // near a threshold, or degraded
	Critical              // past a threshold: somebody should look now
)

// String returns "info", "warn" or "critical".
func (l Level) String() string {
	switch l {
	case Warn:
		return "warn"
	case Critical:
		return "critical"
	default:
		return "info"
	}
}

// Kind names what happened. Kinds are stable: dashboards and tests may match them.
type Kind string

// The kinds of events.
const (
	LoadFailed      Kind = "load.failed"      // a loader returned an error
	LoadRefused     Kind = "load.refused"     // the guard refused a load; nothing was started
	LoadOrphaned    Kind = "load.orphaned"    // a loader outlived its deadline and still runs
	RefreshDropped  Kind = "refresh.dropped"  // the queue of refreshes was full
	EncodeFailed    Kind = "encode.failed"    // a value could not be encoded for Redis; it was served all the same
	TooLarge        Kind = "store.too_large"  // a value over the size limit was served but not stored
	RedisDown       Kind = "redis.down"       // Redis does not answer: reads degrade
	RedisUp         Kind = "redis.up"         // Redis answers again
	RedisMisuse     Kind = "redis.misuse"     // the user's client has an option that weakens a guarantee
	InvalidateError Kind = "invalidate.error" // an invalidation did not reach Redis
	BreakerOpened   Kind = "breaker.opened"   // a breaker tripped
	BreakerClosed   Kind = "breaker.closed"   // a breaker's trial call went well
	Panicked        Kind = "panicked"         // user code panicked when nobody waited for it any more
	Alarm           Kind = "alarm"            // a threshold was approached or passed
)

// Event tells of one thing that happened. Source and Message never carry a cache key or a literal of an SQL statement.
// Err is the cause as it is: what a loader of the user's, or the database behind it, put into its text stands there.
type Event struct {
	At       time.Time     // when it happened
	Kind     Kind          // what happened
	Level    Level         // how urgent it is
	Source   string        // the name of the cache, tier, guard or policy that tells it
	Message  string        // one sentence for a person
	Err      error         // the cause, if there was one
	Duration time.Duration // how long it took, if that matters
	Alarm    *AlarmState   // of an event of the kind Alarm: which one, and what it rests on; nil otherwise
}

// Observer receives events. Implementations must be safe for concurrent use and quick: what tells an event waits for
// Observe, outside of all locks and never on the path of a local hit. Observe runs on a goroutine of its own, so that a
// panic in it, and runtime.Goexit as by a test's FailNow, ends there.
type Observer interface {
	Observe(Event)
}

// Func is a function as an [Observer].
type Func func(Event)

// Observe calls f.
func (f Func) Observe(e Event) { f(e) }

// Slog returns an Observer that logs each event at the slog level that matches its own.
func Slog(l *slog.Logger) Observer {
	return Func(func(e Event) {
		level := slog.LevelInfo
		switch e.Level {
		case Info:
		case Warn:
			level = slog.LevelWarn
		case Critical:
			level = slog.LevelError
		}
		attrs := []slog.Attr{slog.String("kind", string(e.Kind)), slog.String("source", e.Source)}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("err", e.Err))
		}
		if e.Duration > 0 {
			attrs = append(attrs, slog.Duration("duration", e.Duration))
		}
		if e.Alarm != nil {
			attrs = append(attrs, e.Alarm.attrs()...)
		}
		l.LogAttrs(context.Background(), level, e.Message, attrs...) //nolint:forbidigo,sloglint // an event has no ctx, and brings its own message
	})
}

// Emit sends e to o, filling At if it is zero, and returns when the observer has. A nil observer is no observer.
func Emit(o Observer, e Event) {
	if o == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	done := make(chan struct{})
	go func() { // nothing else contains a Goexit; events are rare enough
		defer close(done)
		defer func() { _ = recover() }() //nolint:errcheck // an observer's panic must not reach the code that it watches
		o.Observe(e)
	}()
	<-done
}
