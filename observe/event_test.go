package observe_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
)

func TestEmitToNobody(t *testing.T) {
	t.Parallel()
	observe.Emit(nil, observe.Event{Kind: observe.Alarm})
}

func TestEmitContainsPanics(t *testing.T) {
	t.Parallel()
	calls := 0
	var none any
	observe.Emit(observe.Func(func(observe.Event) { calls++; panic("observer") }), observe.Event{})
	observe.Emit(observe.Func(func(observe.Event) { calls++; panic(errors.New("observer")) }), observe.Event{})
	observe.Emit(observe.Func(func(observe.Event) { calls++; panic(none) }), observe.Event{})
	observe.Emit(observe.Func(nil), observe.Event{})
	assert.Equal(t, calls, 3)
}

func TestEmitContainsGoexit(t *testing.T) {
	t.Parallel()
	calls, ended := 0, false
	observe.Emit(observe.Func(func(observe.Event) {
		defer func() { ended = true }()
		calls++
		runtime.Goexit()
	}), observe.Event{})
	assert.Equal(t, calls, 1)
	assert.True(t, ended, "Emit waits for what the observer has deferred")
}

// Each event is over before its teller goes on, so an observer needs no lock against one teller's events.
func TestEmitWaitsForTheObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		slow := observe.Func(func(e observe.Event) {
			<-time.NewTimer(time.Second).C
			seen = append(seen, e.Message)
		})
		for _, m := range []string{"a", "b", "c"} {
			observe.Emit(slow, observe.Event{Message: m})
			seen = append(seen, "told "+m)
		}
		assert.Equal(t, seen, []string{"a", "told a", "b", "told b", "c", "told c"})
	})
}

func TestEmitSetsTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got observe.Event
		keep := observe.Func(func(e observe.Event) { got = e })
		sent := observe.Event{Kind: observe.LoadFailed, Level: observe.Warn, Source: "users", Message: "m", Err: errors.New("e"), Duration: 1}
		observe.Emit(keep, sent)
		assert.True(t, got.At.Equal(time.Now()))
		sent.At = got.At
		assert.Equal(t, got, sent, "the rest passes as it is")

		sent.At = time.Now().Add(-time.Hour)
		observe.Emit(keep, sent)
		assert.True(t, got.At.Equal(sent.At), "a time that is there stays")
	})
}

func TestLevels(t *testing.T) {
	t.Parallel()
	assert.Equal(t, observe.Info.String(), "info")
	assert.Equal(t, observe.Warn.String(), "warn")
	assert.Equal(t, observe.Critical.String(), "critical")
	assert.Equal(t, observe.Level(99).String(), "info")
	assert.True(t, observe.Info < observe.Warn && observe.Warn < observe.Critical, "in rising urgency")
}

func logged(e observe.Event) string {
	var out bytes.Buffer
	h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	observe.Emit(observe.Slog(slog.New(h)), e)
	return out.String()
}

func TestSlogLevels(t *testing.T) {
	t.Parallel()
	for level, want := range map[observe.Level]string{
		observe.Info: "level=INFO", observe.Warn: "level=WARN", observe.Critical: "level=ERROR", 99: "level=INFO",
	} {
		line := logged(observe.Event{Level: level})
		assert.True(t, strings.Contains(line, want), line)
	}
}

func TestSlogLeavesOutWhatIsNotThere(t *testing.T) {
	t.Parallel()
	line := logged(observe.Event{Kind: observe.Alarm, Source: "users", Message: "near the end"})
	assert.True(t, strings.Contains(line, `msg="near the end" kind=alarm source=users`), line)
	assert.True(t, !strings.Contains(line, "err=") && !strings.Contains(line, "duration="), line)
	line = logged(observe.Event{Err: errors.New("no luck"), Duration: time.Second})
	assert.True(t, strings.Contains(line, `err="no luck" duration=1s`), line)
}
