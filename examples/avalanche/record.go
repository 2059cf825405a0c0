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
	example string   // an error that was neither a rejection nor a timeout
}

func newRecorder(from time.Time, length time.Duration) *recorder {
	return &recorder{from: from, length: length}
}

// add takes what a process reported.
func (r *recorder) add(p report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range p.Samples {
		if s.At.Before(r.from) {
			r.before = append(r.before, s)
		} else {
			r.during = append(r.during, s)
		}
	}
	r.second = append(r.second, p.Samples...)
	if r.example == "" {
		r.example = p.Example
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
	Processes     int     `json:"processes"`
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
		n[s.Kind]++
		all = append(all, s.Latency)
		if s.Kind == rejected {
			refusals = append(refusals, s.Latency)
		}
		if i := int(s.At.Sub(r.from) / time.Second); i < len(seconds) {
			seconds[i] = append(seconds[i], s)
		}
	}
	out.OK, out.Stale, out.Rejected = n[loaded]+n[hit]+n[stale]+n[absent], n[stale], n[rejected]
	out.Errors, out.Timeouts = n[failed], n[timedOut]
	out.P50, out.P99, out.Max = percentile(all, 0.5), percentile(all, 0.99), percentile(all, 1)
	out.RejectedMax = percentile(refusals, 1)
	out.FirstError = r.example
	for i, second := range seconds {
		ok, waited := 0, 0
		var lat []time.Duration
		for _, s := range second {
			lat = append(lat, s.Latency)
			if s.Kind.ok() {
				ok++
			}
			if s.Kind == loaded {
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
		before = append(before, s.Latency)
		if !s.Kind.ok() {
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
		n[s.Kind]++
		lat = append(lat, s.Latency)
	}
	return fmt.Sprintf("%-15s %+5.0f s  requests %6d  hits %6d  stale %6d  rejected %6d  errors %5d  timeouts %6d  p99 %7.1f ms  database %3d running %4d queued",
		name, now.Sub(r.from).Seconds(), len(second), n[hit], n[stale], n[rejected], n[failed], n[timedOut], percentile(lat, 0.99), running, queued)
}
