package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// childMark in the environment makes the program one process of a fleet. Its parent's end ends it too.
const childMark = "SNOWSHED_AVALANCHE_PROCESS"

// child serves one subject: it does what the parent orders until its input ends.
func child(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	l := newLine(in, out)
	var s setup
	if err := l.dec.Decode(&s); err != nil {
		return fmt.Errorf("hearing what to be: %w", err)
	}
	sub, err := open(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sub.Close(context.WithoutCancel(ctx))) }()
	for {
		var o order
		switch err := l.dec.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		done := report{Done: true}
		var work error
		switch {
		case o.Fill:
			done.Filled, work = sub.Fill(ctx)
		case o.Drive != nil:
			work = sending(l, func(log *log) error { return o.Drive.run(ctx, sub, log) })
		case o.Burst != nil:
			work = sending(l, func(log *log) error { return o.Burst.run(ctx, sub, log) })
		}
		if work != nil {
			done.Err = work.Error()
		}
		if err := l.enc.Encode(done); err != nil {
			return err
		}
	}
}

// log collects samples until they are sent.
type log struct {
	mu      sync.Mutex
	samples []sample
	example string
}

func (l *log) add(s sample, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = append(l.samples, s)
	if s.Kind == failed && l.example == "" {
		l.example = err.Error()
	}
}

func (l *log) take() report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := report{Samples: l.samples, Example: l.example}
	l.samples = nil
	return r
}

// sending runs work and sends what it logs a few times a second.
func sending(l line, work func(*log) error) error {
	var log log
	done := make(chan error, 1)
	go func() { done <- work(&log) }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		ended := false
		select {
		case err = <-done:
			ended = true
		case <-tick.C:
		}
		if e := l.enc.Encode(log.take()); e != nil {
			return errors.Join(err, e)
		}
		if ended {
			return err
		}
	}
}

func isChild() bool { return os.Getenv(childMark) != "" }
