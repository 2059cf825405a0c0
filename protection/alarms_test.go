package protection_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// dial is a signal that a test turns.
type dial struct {
	value  float64
	broken bool
}

func (d *dial) signal() protection.Signal {
	return protection.Signal{Source: "db", Cause: "heat", Read: func() protection.Reading {
		if d.broken {
			panic(errors.New("no sensor"))
		}
		return protection.Reading{Value: d.value, Warn: 80, Critical: 100}
	}}
}

// newAlarms watches without a goroutine.
func newAlarms(t *testing.T, log *eventLog, signals ...protection.Signal) *protection.Alarms {
	t.Helper()
	a, err := protection.NewAlarms(protection.AlarmsOptions{Signals: signals, Observer: log, Every: -1})
	assert.NoError(t, err)
	return a
}

// told is what an alarm told, in short.
type told struct {
	phase observe.Phase
	level observe.Level
}

func (l *eventLog) told() (got []told) {
	for _, e := range l.all() {
		got = append(got, told{e.Alarm.Phase, e.Level})
	}
	return got
}

func TestAlarmIsRaisedOnceAndCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		d := &dial{}
		a := newAlarms(t, &log, d.signal())
		step := func(value float64, n int) {
			d.value = value
			for range n {
				a.Check()
				advance(time.Second)
			}
		}
		step(79, 5)
		assert.Equal(t, len(log.told()), 0)
		step(80, 5)
		assert.Equal(t, log.told(), []told{{observe.Raised, observe.Warn}}, "one alarm, not one a second")
		assert.Equal(t, len(a.Active()), 1)
		step(100, 5)
		assert.Equal(t, log.told()[1:], []told{{observe.Raised, observe.Critical}}, "it became more urgent")
		step(85, 11)
		assert.Equal(t, log.told()[2:], []told{{observe.StillOn, observe.Warn}}, "and less so")
		step(0, 10)
		assert.Equal(t, len(log.told()), 3, "not before ClearAfter")
		step(0, 1)
		assert.Equal(t, log.told()[3:], []told{{observe.Cleared, observe.Info}})
		assert.Equal(t, len(a.Active()), 0)
		e := log.all()[3]
		assert.Equal(t, e.Duration, e.At.Sub(e.Alarm.Since))
		assert.True(t, e.Duration > 20*time.Second)
	})
}

func TestAlarmOfASignalThatHoversIsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		d := &dial{}
		a, err := protection.NewAlarms(protection.AlarmsOptions{
			Signals: []protection.Signal{d.signal()}, Observer: &log, Every: -1, RemindIn: time.Hour,
		})
		assert.NoError(t, err)
		for i := range 50 { // a little around the threshold; far below it, but never for long
			d.value = []float64{80, 73, 79, 81, 10, 10, 10}[i%7]
			a.Check()
			advance(time.Second)
		}
		assert.Equal(t, log.told(), []told{{observe.Raised, observe.Warn}})
		for range 100 { // below the threshold, not clearly
			d.value = 73
			a.Check()
			advance(time.Second)
		}
		assert.Equal(t, log.told(), []told{{observe.Raised, observe.Warn}})
	})
}

func TestAlarmRemindsAtGrowingIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		d := &dial{value: 100}
		a := newAlarms(t, &log, d.signal())
		for range 5 * 3600 {
			a.Check()
			advance(time.Second)
		}
		events := log.all()
		minutes := make([]int, 0, len(events))
		for _, e := range events {
			minutes = append(minutes, int(e.Duration.Minutes()))
		}
		assert.Equal(t, minutes, []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243})
	})
}

func TestAlarmCarriesItsEvidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		boom := errors.New("boom")
		newAlarms(t, &log, protection.Signal{Source: "db", Cause: "heat", Read: func() protection.Reading {
			return protection.Reading{Value: 9, Critical: 8, Message: "hot", Err: boom, Evidence: []slog.Attr{slog.Int("calls", 7)}}
		}}).Check()
		e := log.all()[0]
		assert.Equal(t, []any{e.Kind, e.Level, e.Source, e.Message, e.Err}, []any{observe.Alarm, observe.Critical, "db", "hot", boom})
		assert.Equal(t, e.Alarm.Cause, "heat")
		assert.Equal(t, slog.GroupValue(e.Alarm.Evidence...).String(), "[value=9 critical=8 calls=7]")
	})
}

func TestAlarmOfASignalThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		d, other := &dial{broken: true}, &dial{value: 100}
		newAlarms(t, &log, d.signal(), other.signal()).Check()
		assert.Equal(t, log.told(), []told{{observe.Raised, observe.Warn}, {observe.Raised, observe.Critical}}, "and the other is read")
		assert.ErrorAs[*protection.PanicError](t, log.all()[0].Err)
	})
}

func TestAlarmsWatchUntilClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		a, err := protection.NewAlarms(protection.AlarmsOptions{Signals: []protection.Signal{(&dial{value: 100}).signal()}, Observer: &log})
		assert.NoError(t, err)
		advance(1500 * time.Millisecond)
		assert.Equal(t, len(log.told()), 1)
		assert.NoError(t, a.Close(t.Context()))
		assert.NoError(t, a.Close(t.Context()))
		advance(time.Hour)
		assert.Equal(t, len(log.told()), 1)
	})
}

func TestAlarmsObserverMayAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a *protection.Alarms
		active := 0
		a, err := protection.NewAlarms(protection.AlarmsOptions{
			Signals: []protection.Signal{(&dial{value: 100}).signal()}, Every: -1,
			Observer: observe.Func(func(observe.Event) { a.Check(); active = len(a.Active()) }),
		})
		assert.NoError(t, err)
		a.Check()
		assert.Equal(t, active, 1)
	})
}

func TestAlarmsThatCannotBe(t *testing.T) {
	t.Parallel()
	var log eventLog
	for field, o := range map[string]protection.AlarmsOptions{
		"Observer is nil":     {},
		"Signals has 4097":    {Observer: &log, Signals: make([]protection.Signal, 4097)},
		"Signals[0] is \"x\"": {Observer: &log, Signals: []protection.Signal{{Cause: "x"}}},
		"RemindIn is -1":      {Observer: &log, RemindIn: -1},
		"RemindMost is -1":    {Observer: &log, RemindMost: -1},
		"ClearAfter is -1":    {Observer: &log, ClearAfter: -1},
		"Hysteresis is 1":     {Observer: &log, Hysteresis: 1},
		"Hysteresis is -0.1":  {Observer: &log, Hysteresis: -0.1},
		"Hysteresis is NaN":   {Observer: &log, Hysteresis: math.NaN()},
	} {
		_, err := protection.NewAlarms(o)
		named(t, err, "AlarmsOptions."+field)
	}
}

func TestBulkheadSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, protection.BulkheadOptions{Name: "db", MaxConcurrent: 8, MaxQueue: 2})
		var log eventLog
		a := newAlarms(t, &log, b.Signal())
		for range 7 {
			acquire(t, b)
		}
		a.Check()
		assert.Equal(t, len(log.told()), 0)
		acquire(t, b)
		a.Check()
		assert.Equal(t, log.told(), []told{{observe.Raised, observe.Warn}}, "8 of 10")
		for range 2 {
			go func() { _, _ = b.Acquire(t.Context()) }()
		}
		synctest.Wait()
		refused(t, b, protection.ErrFull)
		a.Check()
		assert.Equal(t, log.told()[1:], []told{{observe.Raised, observe.Critical}})
		assert.Equal(t, slog.GroupValue(log.all()[1].Alarm.Evidence...).String(),
			"[value=1 warn=0.8 critical=1 in_flight=8 slots=8 queued=2 max_queue=2 rejected=1]")
		advance(time.Minute)
	})
}

func TestBreakerSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{Name: "db"})
		var log eventLog
		a := newAlarms(t, &log, b.Signal())
		calls(t, b, 15, protection.Success)
		calls(t, b, 5, protection.Failure)
		calls(t, b, 4, protection.Timeout)
		a.Check()
		assert.Equal(t, len(log.told()), 0, "9 of 24 is 75 % of the way to half")
		calls(t, b, 1, protection.Timeout)
		a.Check()
		assert.Equal(t, log.told(), []told{{observe.Raised, observe.Warn}}, "10 of 25 is 80 %")
		calls(t, b, 5, protection.Failure)
		a.Check()
		assert.Equal(t, len(log.told()), 1, "15 of 30 has not tripped")
		assert.Equal(t, b.State(), protection.Closed)
		calls(t, b, 1, protection.Failure)
		a.Check()
		assert.Equal(t, log.told()[1:], []told{{observe.Raised, observe.Critical}})
		evidence := slog.GroupValue(log.all()[0].Alarm.Evidence...).String()
		assert.True(t, strings.Contains(evidence, "state=closed trip_ratio=0.5 min_calls=20 success=15 failure=5 timeout=5"), evidence)
	})
}

func TestBreakerSignalNeedsEnoughCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, protection.BreakerOptions{Name: "db"})
		calls(t, b, 20, protection.Failure)
		assert.Equal(t, b.Signal().Read().Value, 0.0)
	})
}

func TestIslandsSignals(t *testing.T) {
	t.Parallel()
	signals := newIslands(t, "").Signals()
	var names []string //nolint:prealloc // a handful
	for _, s := range signals {
		names = append(names, s.Source+" "+s.Cause)
	}
	assert.Equal(t, names, []string{"shop/core full", "shop/core failures", "shop/ads full", "shop/ads failures"})
}

func TestPoolSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Name: "disk", Workers: 3, MaxQueue: 7, Timeout: time.Millisecond})
		var log eventLog
		a := newAlarms(t, &log, p.Signals()...)
		_ = p.Do(t.Context(), hang(time.Second))
		a.Check()
		assert.Equal(t, log.told(), []told{{observe.Raised, observe.Warn}})
		assert.Equal(t, log.all()[0].Alarm.Cause, "zombies")
		_ = p.Do(t.Context(), hang(time.Second))
		a.Check()
		assert.Equal(t, log.told()[1:], []told{{observe.Raised, observe.Critical}}, "2 of 3")
		_ = p.Do(t.Context(), hang(time.Second))
		for range 7 {
			go func() { _ = p.Do(context.Background(), nothing) }()
		}
		synctest.Wait()
		a.Check()
		assert.Equal(t, log.told()[2:], []told{{observe.Raised, observe.Critical}})
		assert.Equal(t, log.all()[2].Alarm.Cause, "full")
		advance(2 * time.Second)
	})
}
