package httpguard_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection/httpguard"
)

// receiver is the other side of a webhook.
type receiver struct {
	mu       sync.Mutex
	statuses []int // one after another; 0 is an error of the network; none left: 204
	got      []string
	times    []time.Time
	hang     bool // until the request's ctx ends
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, q.Header.Get("Authorization")+" "+q.Header.Get("Content-Type")+" "+string(body))
	r.times = append(r.times, time.Now())
	status := 204
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	if r.hang {
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	if status == 0 {
		return nil, errNet
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: q}, nil
}

func webhook(t *testing.T, r *receiver, o httpguard.WebhookOptions) *httpguard.Webhook {
	t.Helper()
	o.URL, o.Client = "https://x/hook", &http.Client{Transport: r}
	w, err := httpguard.NewWebhook(o)
	assert.NoError(t, err)
	return w
}

func alarm(level observe.Level) observe.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return observe.Event{
		At: at, Kind: observe.Alarm, Level: level, Source: "db", Message: "it burns", Err: errNet,
		Alarm: &observe.AlarmState{Cause: "failures", Phase: observe.Raised, Since: at, Evidence: []slog.Attr{
			slog.Int("calls", 7), slog.Duration("window", time.Second), slog.Group("by", slog.Float64("ratio", 0.5)),
		}},
	}
}

func TestWebhookSendsAlarmsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		w := webhook(t, r, httpguard.WebhookOptions{Header: http.Header{"Authorization": {"Bearer x"}}})
		w.Observe(alarm(observe.Critical))
		w.Observe(observe.Event{Kind: observe.LoadFailed})
		assert.NoError(t, w.Close(t.Context()))
		assert.Equal(t, r.got, []string{`Bearer x application/json {"at":"2026-01-02T03:04:05Z","level":"critical","source":"db","cause":"failures",` +
			`"phase":"raised","since":"2026-01-02T03:04:05Z","message":"it burns","error":"connection reset",` +
			`"evidence":{"by":{"ratio":0.5},"calls":7,"window":"1s"}}`})
		assert.Equal(t, []uint64{w.Sent(), w.Dropped()}, []uint64{1, 0})
	})
}

func TestWebhookEvidenceThatJSONCannotSay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		w := webhook(t, r, httpguard.WebhookOptions{})
		w.Observe(observe.Event{Kind: observe.Alarm, Alarm: &observe.AlarmState{Evidence: []slog.Attr{slog.Float64("x", math.NaN())}}})
		assert.NoError(t, w.Close(t.Context()))
		assert.Equal(t, w.Sent(), uint64(1))
	})
}

func TestWebhookRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int
		attempts int
		sent     uint64
	}{
		"comes round":  {[]int{0, 500, 429}, 4, 1},
		"never does":   {[]int{500, 503, 0, 408, 204}, 4, 0},
		"is final":     {[]int{404}, 1, 0},
		"is elsewhere": {[]int{304, 304}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{statuses: c.statuses}
				w := webhook(t, r, httpguard.WebhookOptions{})
				w.Observe(alarm(observe.Warn))
				assert.NoError(t, w.Close(t.Context()))
				assert.Equal(t, len(r.got), c.attempts)
				assert.Equal(t, []uint64{w.Sent(), w.Dropped()}, []uint64{c.sent, 1 - c.sent})
				for i := 1; i < len(r.times); i++ {
					wait, most := r.times[i].Sub(r.times[i-1]), time.Second<<(i-1)
					assert.True(t, wait >= most/2 && wait <= most+1, wait)
				}
			})
		})
	}
}

func TestWebhookIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{hang: true}
		w := webhook(t, r, httpguard.WebhookOptions{Queue: 2, Attempts: 1})
		start := time.Now()
		w.Observe(alarm(observe.Warn))
		synctest.Wait()
		for range 5 {
			w.Observe(alarm(observe.Warn))
		}
		assert.Equal(t, time.Since(start), 0, "nobody is held up")
		assert.Equal(t, w.Dropped(), uint64(3))
		advance(5 * time.Second) // Timeout
		synctest.Wait()
		assert.Equal(t, w.Dropped(), uint64(4))
		assert.NoError(t, w.Close(t.Context()))
		assert.Equal(t, w.Dropped(), uint64(6))
	})
}

func TestWebhookCloseGivesUpWithItsCtx(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*receiver{"in an attempt": {hang: true}, "between attempts": {statuses: []int{0, 0, 0, 0}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := webhook(t, r, httpguard.WebhookOptions{})
				w.Observe(alarm(observe.Warn))
				w.Observe(alarm(observe.Warn))
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				start := time.Now()
				assert.ErrorIs(t, w.Close(ctx), context.DeadlineExceeded)
				assert.Equal(t, time.Since(start), 100*time.Millisecond)
				assert.NoError(t, w.Close(ctx), "nothing is left to wait for")
				w.Observe(alarm(observe.Warn))
				assert.Equal(t, []uint64{w.Sent(), w.Dropped()}, []uint64{0, 3})
			})
		})
	}
}

func TestWebhookThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "x", "ftp://user:hunter2@x", "http:///x", "http://x\x7f:hunter2@y"} {
		_, err := httpguard.NewWebhook(httpguard.WebhookOptions{URL: u})
		named(t, err, "WebhookOptions.URL is")
		assert.Equal(t, err.Error(), "httpguard: WebhookOptions.URL is no http or https URL", "without the secret in it")
		assert.True(t, errors.Unwrap(err) == nil)
	}
	for field, o := range map[string]httpguard.WebhookOptions{
		"Queue": {Queue: -1}, "Timeout": {Timeout: -1}, "Attempts": {Attempts: -1}, "Backoff": {Backoff: -1},
	} {
		o.URL = "http://x"
		_, err := httpguard.NewWebhook(o)
		named(t, err, "WebhookOptions."+field+" is -1")
	}
}
