package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// recorder keeps every request of a run: those of the measured span, and apart from them those before it.
type recorder struct {
	from   time.Time
	length time.Duration

	mu      sync.Mutex
	before  []sample
	during  []sample
	second  []sample // since the last line of progress
	example error    // the first error that was neither a rejection nor a timeout
}

type sample struct {
	at      time.Duration // intended start, from the start of the measured span
	latency time.Duration
	kind    kind
}

func newRecorder(from time.Time, length time.Duration) *recorder {
	return &recorder{from: from, length: length}
}

func (r *recorder) add(intended time.Time, latency time.Duration, k kind, err error) {
	s := sample{intended.Sub(r.from), latency, k}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.at < 0 {
		r.before = append(r.before, s)
	} else {
		r.during = append(r.during, s)
	}
	r.second = append(r.second, s)
	if k == failed && r.example == nil {
		r.example = err
	}
}

// result is what a run came to, with what the database said of it.
type result struct {
	Name     string `json:"name"`
	Rate     int    `json:"rate"`
	Valid    bool   `json:"valid"` // whether the machine bore the load before anything happened
	Requests int    `json:"requests"`
	OK       int    `json:"ok"` // stale ones included
	Stale    int    `json:"stale"`
	Rejected int    `json:"rejected"`
	Errors   int    `json:"errors"`
	Timeouts int    `json:"timeouts"`
	figures
	P50           float64 `json:"p50_ms"`
	P99           float64 `json:"p99_ms"`
	Max           float64 `json:"max_ms"`
	RejectedMax   float64 `json:"rejected_max_ms"`
	RecoveredAt   float64 `json:"recovered_s"` // end of the last second in which under 95 % were answered; 0: there was none
	PIDs          []int   `json:"pids"`
	FirstError    string  `json:"first_error,omitempty"`
	before        condition
	perSecondOK   []float64
	perSecondP99  []float64
	perSecondLoad []float64
}

type condition struct {
	failed int
	p99    float64
}

func (r *recorder) result(name string) *result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &result{Name: name, Requests: len(r.during)}
	all := make([]time.Duration, 0, len(r.during))
	var refusals []time.Duration
	var n [kinds]int
	seconds := make([][]sample, int((r.length+time.Second-1)/time.Second))
	for _, s := range r.during {
		n[s.kind]++
		all = append(all, s.latency)
		if s.kind == rejected {
			refusals = append(refusals, s.latency)
		}
		if i := int(s.at / time.Second); i < len(seconds) {
			seconds[i] = append(seconds[i], s)
		}
	}
	out.OK, out.Stale, out.Rejected = n[loaded]+n[hit]+n[stale], n[stale], n[rejected]
	out.Errors, out.Timeouts = n[failed], n[timedOut]
	out.P50, out.P99, out.Max = percentile(all, 0.5), percentile(all, 0.99), percentile(all, 1)
	out.RejectedMax = percentile(refusals, 1)
	if r.example != nil {
		out.FirstError = r.example.Error()
	}
	for i, second := range seconds {
		ok, waited := 0, 0
		var lat []time.Duration
		for _, s := range second {
			lat = append(lat, s.latency)
			if s.kind.ok() {
				ok++
			}
			if s.kind == loaded {
				waited++
			}
		}
		share := 1.0
		if len(second) > 0 {
			share = float64(ok) / float64(len(second))
		}
		out.perSecondOK = append(out.perSecondOK, 100*share)
		out.perSecondP99 = append(out.perSecondP99, percentile(lat, 0.99))
		out.perSecondLoad = append(out.perSecondLoad, float64(waited))
		if share < 0.95 {
			out.RecoveredAt = float64(i + 1)
		}
	}
	before := make([]time.Duration, 0, len(r.before))
	for _, s := range r.before {
		before = append(before, s.latency)
		if !s.kind.ok() {
			out.before.failed++
		}
	}
	out.before.p99 = percentile(before, 0.99)
	out.Valid = out.before.failed == 0 && out.before.p99 < 20
	return out
}

// percentile returns a quantile in milliseconds; it sorts d.
func percentile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	i := min(int(q*float64(len(d))), len(d)-1)
	return float64(d[i]) / float64(time.Millisecond)
}

// progress prints a line a second until the returned function is called.
func progress(out io.Writer, name string, rec *recorder, db interface{ Now() (running, queued int) }) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case now := <-tick.C:
				running, queued := db.Now()
				fmt.Fprintln(out, rec.line(name, now, running, queued))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// line sums up the requests that were answered since the last line.
func (r *recorder) line(name string, now time.Time, running, queued int) string {
	r.mu.Lock()
	second := r.second
	r.second = nil
	r.mu.Unlock()
	var n [kinds]int
	lat := make([]time.Duration, 0, len(second))
	for _, s := range second {
		n[s.kind]++
		lat = append(lat, s.latency)
	}
	return fmt.Sprintf("%-15s %+5.0f s  requests %6d  hits %6d  stale %6d  rejected %6d  errors %5d  timeouts %6d  p99 %7.1f ms  database %3d running %4d queued",
		name, now.Sub(r.from).Seconds(), len(second), n[hit], n[stale], n[rejected], n[failed], n[timedOut], percentile(lat, 0.99), running, queued)
}
