package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// A scenario is something that befalls a cache. Its subjects live through it one after another: each fills the cache,
// is asked from a while before the event on, and is measured from the event for a fixed time.
type scenario struct {
	name  string
	about string // what the report opens with
	usual settings

	subjects []string
	// event is when it begins, after the fill.
	event  func(subject string, s settings) time.Duration
	length func(s settings) time.Duration
	load   func(at, until time.Time, s settings) order
	// deeds are done to the servers, at times after the event.
	deeds []deed
	// check returns what was promised and not kept by a subject other than the naive one.
	check func(s settings, r *result) []error
}

// deed is something that is done to a server.
type deed struct {
	after time.Duration
	what  string
	do    func(ctx context.Context, w *world) error
}

// world is what all subjects of a run share.
type world struct {
	settings

	db    database
	redis redisServer
}

var scenarios = []*scenario{massExpiry, hotKey, redisDown, dbSlow, penetration}

// warm is how long the load runs before the event.
const warm = 2 * time.Second

// run lets all subjects live through it.
func (sc *scenario) run(ctx context.Context, w *world, out io.Writer) ([]*result, error) {
	const attempts = 3
	var results []*result
	for _, name := range sc.subjects {
		for attempt := 1; ; attempt++ {
			r, err := sc.drop(ctx, w, name, out)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if name == "naive" && !r.Valid && attempt < attempts {
				lower(&w.settings, out, r)
				continue
			}
			if !r.Valid {
				fmt.Fprintln(out, "this run is not valid: the machine did not bear the load before anything happened")
			}
			results = append(results, r)
			break
		}
	}
	return results, nil
}

// drop runs one subject through the scenario.
func (sc *scenario) drop(ctx context.Context, w *world, name string, out io.Writer) (_ *result, err error) {
	fmt.Fprintf(out, "\n%s: filling the cache\n", name)
	f, err := startFleet(ctx, setup{
		Subject: name, Config: w.settings, DSN: w.db.DSN(), Query: w.db.Query(), Redis: w.redis.Addrs(),
		Workers: max(1, w.Workers/w.Processes),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	if err := w.db.Pace(ctx, 0); err != nil { // the fill is no part of the test
		return nil, err
	}
	filled, err := f.fill()
	if err != nil {
		return nil, fmt.Errorf("filling: %w", err)
	}
	if err := w.db.Pace(ctx, w.Service); err != nil {
		return nil, err
	}
	event := filled.Add(sc.event(name, w.settings) - 2*expiryTick)
	if name == "naive" {
		if err := sc.calibrate(w, f, event.Add(-warm-3*time.Second), out); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, time.Until(event.Add(-warm))); err != nil {
		return nil, err
	}

	length := sc.length(w.settings)
	rec := newRecorder(event, length)
	if err := w.db.Reset(ctx); err != nil {
		return nil, err
	}
	stopped := progress(out, name, rec, w.db)
	deeds := make(chan error, 1)
	go func() { deeds <- sc.befall(ctx, w, event, out) }()
	err = f.share(sc.load(event.Add(-warm), event.Add(length), w.settings), rec)
	err = errors.Join(err, <-deeds)
	stopped()
	if err != nil {
		return nil, err
	}
	r := rec.result(name)
	r.Rate, r.Processes, r.PIDs = w.Rate, len(f), f.pids()
	if err := w.db.Drain(ctx); err != nil {
		return nil, err
	}
	r.figures, err = w.db.Figures(ctx)
	return r, err
}

// befall does all deeds, each at its time.
func (sc *scenario) befall(ctx context.Context, w *world, event time.Time, out io.Writer) error {
	for _, d := range sc.deeds {
		if err := pause(ctx, time.Until(event.Add(d.after))); err != nil {
			return err
		}
		fmt.Fprintln(out, "----", d.what)
		if err := d.do(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
	}
	return nil
}

// calibrate lowers the rate until the cache answers all of it from memory without strain, which takes place while the
// values wait to expire.
func (sc *scenario) calibrate(w *world, f fleet, until time.Time, out io.Writer) error {
	const trial = 1500 * time.Millisecond
	for time.Until(until) > trial && w.Rate > 100 {
		now := time.Now()
		rec := newRecorder(now.Add(trial), 0)
		if err := f.share(sc.load(now, now.Add(trial), w.settings), rec); err != nil {
			return err
		}
		r := rec.result("trial")
		if r.Valid {
			return nil
		}
		lower(&w.settings, out, r)
	}
	return nil
}

func lower(s *settings, out io.Writer, r *result) {
	s.Rate = s.Rate * 4 / 5
	fmt.Fprintf(out, "this machine does not bear the load (before the event: %d errors, p99 %.1f ms): lowering the rate to %d requests/s\n",
		r.before.failed, r.before.p99, s.Rate)
}

// steady is a load at the rate of s on all articles.
func steady(from, to time.Time, s settings) order {
	return order{Drive: &drive{Rate: float64(s.Rate), From: from, To: to, Ask: ask{N: int64(s.Keys), Deadline: s.Deadline}}}
}

// spared says whether the database was kept within its bounds.
func spared(s settings, r *result) []error {
	if r.MaxRunning > s.Workers || r.MaxQueued > s.Workers {
		return []error{fmt.Errorf("%d statements ran and %d queued at the database", r.MaxRunning, r.MaxQueued)}
	}
	return nil
}

// answered says whether every request had an answer or a typed rejection.
func answered(r *result) []error {
	if r.Errors+r.Timeouts > 0 {
		return []error{fmt.Errorf("%d errors and %d timeouts", r.Errors, r.Timeouts)}
	}
	return nil
}

// back says whether nearly all was answered again in time.
func back(r *result, within time.Duration) []error {
	if r.RecoveredAt > within.Seconds() {
		return []error{fmt.Errorf("recovered after %.0f s, more than %v", r.RecoveredAt, within)}
	}
	return nil
}

func atMost(r *result, loads uint64) []error {
	if r.Loads > loads {
		return []error{fmt.Errorf("%d loads, more than %d", r.Loads, loads)}
	}
	return nil
}
