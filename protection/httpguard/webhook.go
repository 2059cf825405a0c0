package httpguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// WebhookOptions describes a [Webhook].
type WebhookOptions struct {
	URL    string       // where to POST; http or https; required
	Header http.Header  // added to each request, such as Authorization
	Client *http.Client // sends; default one of its own, with the default transport

	Queue    int           // how many events may wait to be sent, one more is dropped; default 64
	Timeout  time.Duration // for one attempt; default 5 s
	Attempts int           // for one event; default 4
	Backoff  time.Duration // before the second attempt, twice as long before each further one, up to a half less by chance; default 1 s
}

func (o WebhookOptions) withDefaults() (WebhookOptions, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return o, errors.New("httpguard: WebhookOptions.URL is no http or https URL") // which may hold a secret: it is not repeated
	}
	switch {
	case o.Queue < 0:
		return o, fmt.Errorf("httpguard: WebhookOptions.Queue is %d: it must not be negative", o.Queue)
	case o.Timeout < 0:
		return o, fmt.Errorf("httpguard: WebhookOptions.Timeout is %v: it must not be negative", o.Timeout)
	case o.Attempts < 0:
		return o, fmt.Errorf("httpguard: WebhookOptions.Attempts is %d: it must not be negative", o.Attempts)
	case o.Backoff < 0:
		return o, fmt.Errorf("httpguard: WebhookOptions.Backoff is %v: it must not be negative", o.Backoff)
	}
	if o.Queue == 0 {
		o.Queue = 64
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	if o.Client == nil {
		o.Client = &http.Client{}
	}
	o.Header = o.Header.Clone()
	return o, nil
}

// Webhook is an observer that POSTs events of the kind observe.Alarm as JSON, one after another, and ignores all others. It
// never holds up whoever tells it: what does not fit its queue is dropped, and what the other side does not take with a
// status of 2xx in a few attempts is given up; both are counted. A status of 4xx other than 408 and 429 is final. The owner
// must Close it. Safe for concurrent use.
type Webhook struct {
	opt    WebhookOptions
	queue  chan observe.Event
	done   chan struct{}
	ctx    context.Context //nolint:containedctx // ends when Close can wait no longer
	cancel context.CancelFunc

	mu     sync.RWMutex // Observe reads
	closed bool

	sent, dropped atomic.Uint64
}

// NewWebhook returns a webhook that is ready, or an error that names the option that cannot be. It does not connect.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Webhook{opt: o, queue: make(chan observe.Event, o.Queue), done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // the webhook's own, ended by Close
	go w.run()
	return w, nil
}

// Observe queues an alarm.
func (w *Webhook) Observe(e observe.Event) {
	if e.Kind != observe.Alarm {
		return
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if !w.closed {
		select {
		case w.queue <- e:
			return
		default:
		}
	}
	w.dropped.Add(1)
}

// Sent returns how many events the other side has taken.
func (w *Webhook) Sent() uint64 { return w.sent.Load() }

// Dropped returns how many events were lost: because the queue was full, the webhook closed, or all attempts in vain.
func (w *Webhook) Dropped() uint64 { return w.dropped.Load() }

func (w *Webhook) run() {
	defer close(w.done)
	for e := range w.queue {
		if w.deliver(w.ctx, encode(e)) {
			w.sent.Add(1)
		} else {
			w.dropped.Add(1)
		}
	}
}

// deliver makes the attempts, and returns whether one was taken.
func (w *Webhook) deliver(ctx context.Context, payload []byte) bool {
	wait := w.opt.Backoff
	for attempt := range w.opt.Attempts {
		if attempt > 0 {
			t := time.NewTimer(wait/2 + rand.N(wait/2+1))
			select {
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
			wait *= 2
		}
		if ctx.Err() != nil {
			return false
		}
		if taken, final := w.attempt(ctx, payload); taken || final {
			return taken
		}
	}
	return false
}

// attempt sends once.
func (w *Webhook) attempt(ctx context.Context, payload []byte) (taken, final bool) {
	ctx, cancel := context.WithTimeout(ctx, w.opt.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.opt.URL, bytes.NewReader(payload))
	if err != nil {
		return false, true
	}
	maps.Copy(r.Header, w.opt.Header)
	r.Header.Set("Content-Type", "application/json")
	resp, err := w.opt.Client.Do(r)
	if err != nil {
		return false, false
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 4096) //nolint:errcheck // a little, so that the connection can be used again
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false, false
	}
	return resp.StatusCode/100 == 2, resp.StatusCode/100 == 4
}

// Close takes no more events and waits until those in the queue have been sent, or ctx ends; then it gives up the rest,
// which counts as dropped, and returns an error that wraps ctx's. It may be called again.
func (w *Webhook) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	defer w.cancel()
	select {
	case <-w.done:
		return nil
	default:
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	w.cancel()
	<-w.done // at once: nothing is sent under a ctx that has ended
	return fmt.Errorf("httpguard: close of a webhook: %w", ctx.Err())
}
