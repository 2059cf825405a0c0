package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// A subject is a way to read articles, under test.
type subject interface {
	// Fill caches all articles at one moment, and returns a time just before it.
	Fill(ctx context.Context) (time.Time, error)
	// Get answers a request. stale says that the answer was past its TTL, hit that no load was waited for.
	Get(ctx context.Context, id int64) (hit, stale bool, err error)
	Close(ctx context.Context) error
}

// jitter is the part of the TTL over which Snowshed spreads expiries: its default.
const jitter = 0.1

// aftermath is how long each subject is looked on once the last of its keys may have expired.
const aftermath = 3 * time.Second

// warm is how long the load runs before the first key expires.
const warm = 2 * time.Second

// massExpiry fills a cache at one moment, waits until its values expire under load, and looks on for a while. Each
// subject is measured from the moment when its first key may expire, for the same length of time.
func massExpiry(ctx context.Context, cfg config, db database, out io.Writer) ([]*result, error) {
	subjects := []struct {
		name  string
		first time.Duration // when the first key may expire, after the fill
		open  func(context.Context, config, database) (subject, error)
	}{
		{"naive", cfg.ttl, openNaive},
		{"snowshed", cfg.ttl - time.Duration(jitter*float64(cfg.ttl)), openSnowshed},
		{"snowshed-strict", cfg.ttl, openStrict},
	}
	const attempts = 3
	var results []*result
	for _, s := range subjects {
		for attempt := 1; ; attempt++ {
			r, err := drop(ctx, &cfg, db, s.name, s.first, s.open, out)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if s.name == "naive" && !r.Valid && attempt < attempts {
				lower(&cfg, out, r)
				continue
			}
			if !r.Valid {
				fmt.Fprintln(out, "this run is not valid: the machine did not bear the load before anything expired")
			}
			results = append(results, r)
			break
		}
	}
	return results, nil
}

// drop runs one subject through the expiry.
func drop(ctx context.Context, cfg *config, db database, name string, first time.Duration,
	open func(context.Context, config, database) (subject, error), out io.Writer,
) (*result, error) {
	fmt.Fprintf(out, "\n%s: filling the cache\n", name)
	s, err := open(ctx, *cfg, db)
	if err != nil {
		return nil, err
	}
	defer s.Close(ctx)
	if err := db.Pace(ctx, 0); err != nil { // the fill is no part of the test
		return nil, err
	}
	filled, err := s.Fill(ctx)
	if err != nil {
		return nil, fmt.Errorf("filling: %w", err)
	}
	filled = filled.Add(-2 * expiryTick)
	if err := db.Pace(ctx, cfg.service); err != nil {
		return nil, err
	}
	if name == "naive" {
		if err := calibrate(ctx, cfg, s, filled.Add(first-warm-3*time.Second), out); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, time.Until(filled.Add(first-warm))); err != nil {
		return nil, err
	}

	length := time.Duration(jitter*float64(cfg.ttl)) + aftermath
	rec := newRecorder(filled.Add(first), length)
	if err := db.Reset(ctx); err != nil {
		return nil, err
	}
	stopped := progress(out, name, rec, db)
	err = drive(ctx, cfg.rate, cfg.deadline, filled.Add(first-warm), filled.Add(first+length), cfg.keys, s, rec)
	stopped()
	if err != nil {
		return nil, err
	}
	r := rec.result(name)
	r.Rate, r.PIDs = cfg.rate, []int{os.Getpid()}
	if err := db.Drain(ctx); err != nil {
		return nil, err
	}
	r.figures, err = db.Figures(ctx)
	return r, err
}

// calibrate lowers the rate until the cache answers all of it from memory without strain, which takes place while the
// values wait to expire.
func calibrate(ctx context.Context, cfg *config, s subject, until time.Time, out io.Writer) error {
	const trial = 1500 * time.Millisecond
	for time.Until(until) > trial && cfg.rate > 100 {
		rec := newRecorder(time.Now().Add(trial), 0)
		if err := drive(ctx, cfg.rate, cfg.deadline, time.Now(), time.Now().Add(trial), cfg.keys, s, rec); err != nil {
			return err
		}
		r := rec.result("trial")
		if r.Valid {
			return nil
		}
		lower(cfg, out, r)
	}
	return nil
}

func lower(cfg *config, out io.Writer, r *result) {
	cfg.rate = cfg.rate * 4 / 5
	fmt.Fprintf(out, "this machine does not bear the load (before the expiry: %d errors, p99 %.1f ms): lowering the rate to %d requests/s\n",
		r.before.failed, r.before.p99, cfg.rate)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
