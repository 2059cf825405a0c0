package protection

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/internal/contain"
	"github.com/snowshed-go/snowshed/observe"
)

// AlarmsOptions says what [Alarms] watch, and how patient they are.
type AlarmsOptions struct {
	Signals  []Signal         // what to watch, at most 4096
	Observer observe.Observer // the sink; observe.All makes one of several; required

	Every      time.Duration // how often the signals are read; default 1 s; negative: only by Check
	RemindIn   time.Duration // from the raising of an alarm to the first reminder, then twice as long each time; default 1 min
	RemindMost time.Duration // the longest time between reminders; default 1 h
	ClearAfter time.Duration // how long a signal must be below a level before the alarm leaves it; default 10 s
	Hysteresis float64       // how far below a threshold is below it, as a part of the threshold, 0 ≤ h < 1; default 0.1
}

const maxSignals = 4096

// withDefaults returns o with its defaults filled in, or an error that names the field.
func (o AlarmsOptions) withDefaults() (AlarmsOptions, error) {
	if o.Observer == nil {
		return o, fmt.Errorf("protection: AlarmsOptions.Observer is nil: it must be given") //nolint:perfsprint // as its sisters
	}
	if len(o.Signals) > maxSignals {
		return o, fmt.Errorf("protection: AlarmsOptions.Signals has %d signals: it must have at most %d", len(o.Signals), maxSignals)
	}
	for i, s := range o.Signals {
		if s.Cause == "" || s.Read == nil {
			return o, fmt.Errorf("protection: AlarmsOptions.Signals[%d] is %q of %q: it must have a Cause and a Read", i, s.Cause, s.Source)
		}
	}
	if math.IsNaN(o.Hysteresis) || o.Hysteresis < 0 || o.Hysteresis >= 1 {
		return o, fmt.Errorf("protection: AlarmsOptions.Hysteresis is %v: it must be at least 0 and below 1", o.Hysteresis)
	}
	if o.Hysteresis == 0 {
		o.Hysteresis = 0.1
	}
	for _, d := range []struct {
		field string
		value *time.Duration
		std   time.Duration
	}{
		{"RemindIn", &o.RemindIn, time.Minute},
		{"RemindMost", &o.RemindMost, time.Hour},
		{"ClearAfter", &o.ClearAfter, 10 * time.Second},
	} {
		if *d.value < 0 {
			return o, fmt.Errorf("protection: AlarmsOptions.%s is %v: it must not be negative", d.field, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.std
		}
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	o.Signals = slices.Clone(o.Signals)
	return o, nil
}

// Alarms watches signals and tells an observer of those that come near a threshold or pass it, as events of the kind
// observe.Alarm. For each source and cause there is one alarm: it is raised once, again if it becomes more urgent,
// remembered at growing intervals for as long as it is on, and cleared. Levels rise at once and fall only when the signal
// has been clearly below for a while, so that a signal that hovers at a threshold is one alarm. The owner must Close it.
// Safe for concurrent use.
type Alarms struct {
	opt  AlarmsOptions
	stop chan struct{}
	done chan struct{}
	once sync.Once

	checking sync.Mutex // held by the one check that runs, not by those who ask what is on

	mu     sync.Mutex
	alarms []alarm // one for each signal
}

// NewAlarms begins to watch, or returns an error that names the option that cannot be.
func NewAlarms(o AlarmsOptions) (*Alarms, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Alarms{opt: o, stop: make(chan struct{}), done: make(chan struct{}), alarms: make([]alarm, len(o.Signals))}
	if o.Every < 0 {
		close(a.done)
		return a, nil
	}
	go a.watch()
	return a, nil
}

func (a *Alarms) watch() {
	defer close(a.done)
	t := time.NewTicker(a.opt.Every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			a.Check()
		case <-a.stop:
			return
		}
	}
}

// Check reads all signals now and tells the observer what has changed. While another check runs it does nothing. The
// observer runs on this goroutine.
func (a *Alarms) Check() {
	if !a.checking.TryLock() {
		return
	}
	defer a.checking.Unlock()
	for i, s := range a.opt.Signals {
		r, err := contain.Call(func() (Reading, error) { return s.Read(), nil })
		if err != nil { // a signal that cannot be read says nothing about itself
			r = Reading{Value: 1, Warn: 1, Err: err, Message: "the signal cannot be read"}
		}
		now := time.Now()
		a.mu.Lock()
		event, news := a.alarms[i].update(&a.opt, s, &r, now)
		a.mu.Unlock()
		if news {
			observe.Emit(a.opt.Observer, event)
		}
	}
}

// Active returns the latest event of each alarm that is on, in the order of the signals.
func (a *Alarms) Active() []observe.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	var on []observe.Event
	for i := range a.alarms {
		if a.alarms[i].level > observe.Info {
			on = append(on, a.alarms[i].last)
		}
	}
	return on
}

// Close ends the watching and waits until it has ended, or ctx has; then it returns an error that wraps ctx's. Alarms that
// are on are not cleared: their causes have not gone. It may be called again. Check still works.
func (a *Alarms) Close(ctx context.Context) error {
	a.once.Do(func() { close(a.stop) })
	select {
	case <-a.done:
		return nil
	default:
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("protection: close of alarms: a check still runs: %w", ctx.Err())
	}
}
