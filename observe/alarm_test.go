package observe_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
)

func TestSlogWritesTheEvidenceOfAnAlarm(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	observe.Slog(slog.New(slog.NewTextHandler(&out, nil))).Observe(observe.Event{
		Kind: observe.Alarm, Level: observe.Critical, Source: "db", Message: "half of the calls fail",
		Alarm: &observe.AlarmState{Cause: "failures", Phase: observe.Raised, Evidence: []slog.Attr{slog.Int("calls", 40)}},
	})
	for _, want := range []string{"level=ERROR", "cause=failures", "phase=raised", "evidence.calls=40"} {
		assert.True(t, strings.Contains(out.String(), want), want, " in ", out.String())
	}
}

func TestAllTellsEachAndContainsAPanic(t *testing.T) {
	t.Parallel()
	told := 0
	count := observe.Func(func(e observe.Event) { told++; assert.True(t, !e.At.IsZero()) })
	observe.All(count, nil, observe.Func(func(observe.Event) { panic("observer") }), count).Observe(observe.Event{})
	assert.Equal(t, told, 2)
}

func TestPhaseHasAName(t *testing.T) {
	t.Parallel()
	for phase, want := range map[observe.Phase]string{
		observe.Raised: "raised", observe.StillOn: "still on", observe.Cleared: "cleared", 0: "unknown",
	} {
		assert.Equal(t, phase.String(), want)
	}
}
