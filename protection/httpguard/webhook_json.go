package httpguard

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// alarmJSON is an alarm as a [Webhook] sends it. Fields may be added.
type alarmJSON struct {
	At       time.Time      `json:"at"`
	Level    string         `json:"level"` // "info", "warn", "critical"
	Source   string         `json:"source"`
	Cause    string         `json:"cause,omitempty"`
	Phase    string         `json:"phase,omitempty"` // "raised", "still on", "cleared"
	Since    *time.Time     `json:"since,omitempty"`
	Message  string         `json:"message"`
	Error    string         `json:"error,omitempty"`
	Evidence map[string]any `json:"evidence,omitempty"`
}

func encode(e observe.Event) []byte {
	out := alarmJSON{At: e.At, Level: e.Level.String(), Source: e.Source, Message: e.Message}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	if a := e.Alarm; a != nil {
		out.Cause, out.Phase, out.Since, out.Evidence = a.Cause, a.Phase.String(), &a.Since, evidence(a.Evidence)
	}
	text, err := json.Marshal(out)
	if err != nil { // of evidence that JSON cannot say, such as a float that is no number
		out.Evidence = map[string]any{"unreadable": err.Error()}
		text, _ = json.Marshal(out) //nolint:errcheck,errchkjson // strings and times
	}
	return text
}

func evidence(attrs []slog.Attr) map[string]any {
	if len(attrs) == 0 {
		return nil
	}
	m := make(map[string]any, len(attrs))
	for _, a := range attrs {
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindDuration:
			m[a.Key] = v.Duration().String()
		case slog.KindGroup:
			m[a.Key] = evidence(v.Group())
		default:
			m[a.Key] = v.Any()
		}
	}
	return m
}
