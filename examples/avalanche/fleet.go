package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// fleet is the processes of one subject, as their parent sees them.
type fleet []*process

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	line
}

// startFleet starts as many processes as the scenario has. s is what each of them is.
func startFleet(ctx context.Context, s setup) (fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var f fleet
	for range s.Config.Processes {
		p, err := startProcess(ctx, self, s)
		if err != nil {
			return nil, errors.Join(err, f.stop())
		}
		f = append(f, p)
	}
	return f, nil
}

func startProcess(ctx context.Context, program string, s setup) (*process, error) {
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = in.Close // which lets it clean up
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, in, newLine(out, in)}
	return p, p.enc.Encode(s)
}

// stop ends the processes and waits for them.
func (f fleet) stop() error {
	var errs []error
	for _, p := range f {
		errs = append(errs, p.in.Close())
	}
	for _, p := range f {
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", p.cmd.Process.Pid, err))
		}
	}
	return errors.Join(errs...)
}

func (f fleet) pids() []int {
	pids := make([]int, 0, len(f))
	for _, p := range f {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// fill lets one process fill the cache.
func (f fleet) fill() (time.Time, error) {
	done, err := f[0].do(order{Fill: true}, nil)
	return done.Filled, err
}

// share gives each process its part of the work, and waits for all.
func (f fleet) share(o order, rec *recorder) error {
	errs := make([]error, len(f))
	var wg sync.WaitGroup
	for i, p := range f {
		mine := o
		switch {
		case o.Drive != nil:
			d := *o.Drive
			d.Rate /= float64(len(f))
			d.From = d.From.Add(time.Duration(float64(i) / o.Drive.Rate * float64(time.Second))) // take turns
			mine.Drive = &d
		case o.Burst != nil:
			b := *o.Burst
			b.Callers = (o.Burst.Callers + i) / len(f)
			mine.Burst = &b
		}
		wg.Go(func() { _, errs[i] = p.do(mine, rec) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// do sends an order and waits until it is done.
func (p *process) do(o order, rec *recorder) (report, error) {
	if err := p.enc.Encode(o); err != nil {
		return report{}, err
	}
	for {
		var r report
		if err := p.dec.Decode(&r); err != nil {
			return r, fmt.Errorf("process %d: %w", p.cmd.Process.Pid, err)
		}
		if r.Done {
			if r.Err != "" {
				return r, fmt.Errorf("process %d: %s", p.cmd.Process.Pid, r.Err)
			}
			return r, nil
		}
		rec.add(r)
	}
}
