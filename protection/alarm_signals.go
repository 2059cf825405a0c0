package protection

import (
	"fmt"
	"log/slog"
)

// near is the part of a threshold from which on a signal is a warning.
const near = 0.8

// Signal returns the bulkhead's occupancy for [Alarms]: the part of its slots and of its queue that is taken. It is a
// warning from 80 % on, and critical when the bulkhead is full and refuses.
func (b *Bulkhead) Signal() Signal {
	return Signal{Source: b.opt.Name, Cause: "full", Read: func() Reading {
		running, waiting, size := b.InFlight(), b.Queued(), b.Size()
		return Reading{
			Value: float64(running+waiting) / float64(size+b.opt.MaxQueue), Warn: near, Critical: 1,
			Message: fmt.Sprintf("%d of %d slots and %d of %d places in the queue are taken", running, size, waiting, b.opt.MaxQueue),
			Evidence: []slog.Attr{
				slog.Int("in_flight", running), slog.Int("slots", size),
				slog.Int("queued", waiting), slog.Int("max_queue", b.opt.MaxQueue), slog.Uint64("rejected", b.Rejected()),
			},
		}
	}}
}

// Signals returns the pool's occupancy, as [Bulkhead.Signal] does, and the part of its workers that zombies hold: any is a
// warning, half of them is critical. A pool that has an Observer raises its own alarm over zombies; watch one of the two.
func (p *Pool) Signals() []Signal {
	evidence := func(s PoolStats) []slog.Attr {
		return []slog.Attr{
			slog.Int("running", s.Running), slog.Int("workers", s.Workers), slog.Int("zombies", s.Zombies),
			slog.Int("queued", s.Queued), slog.Int("max_queue", p.opt.MaxQueue), slog.Uint64("rejected", s.Rejected),
		}
	}
	return []Signal{
		{Source: p.opt.Name, Cause: "full", Read: func() Reading {
			s := p.Stats()
			return Reading{
				Value: float64(s.Running+s.Queued) / float64(s.Workers+p.opt.MaxQueue), Warn: near, Critical: 1, Evidence: evidence(s),
				Message: fmt.Sprintf("%d of %d workers and %d of %d places in the queue are taken", s.Running, s.Workers, s.Queued, p.opt.MaxQueue),
			}
		}},
		{Source: p.opt.Name, Cause: causeZombies, Read: func() Reading {
			s := p.Stats()
			return Reading{
				Value: float64(s.Zombies) / float64(s.Workers), Warn: 1 / float64(s.Workers), Critical: 0.5, Evidence: evidence(s),
				Message: fmt.Sprintf("%d of %d workers run work that outlived its caller", s.Zombies, s.Workers),
			}
		}},
	}
}

// Signal returns the part of the calls in the breaker's window that failed or timed out, as a part of the ratio that would
// trip it: a warning from 80 % of that ratio on, once there are enough calls to trip, and critical while the breaker is
// open.
func (b *Breaker) Signal() Signal {
	return Signal{Source: b.rules.Load().Name, Cause: "failures", Read: func() Reading {
		r, s := b.rules.Load(), b.Snapshot()
		total, bad := s.Success+s.Failure+s.Timeout+s.Overdue, s.Failure+s.Timeout+s.Overdue
		reading := Reading{
			Warn: near, Critical: 1,
			Message: fmt.Sprintf("%d of %d calls failed or timed out within %v", bad, total, r.Window),
			Evidence: []slog.Attr{
				slog.String("state", s.State.String()), slog.Float64("trip_ratio", r.FailureRatio), slog.Int("min_calls", r.MinCalls),
				slog.Uint64("success", s.Success), slog.Uint64("failure", s.Failure), slog.Uint64("timeout", s.Timeout),
				slog.Uint64("overdue", s.Overdue), slog.Uint64("slow", s.Slow), slog.Uint64("rejected", s.Rejected), slog.Duration("window", r.Window),
			},
		}
		switch {
		case s.State != Closed:
			reading.Value, reading.Message = 1, "the circuit breaker is open: "+s.Reason
		case total > uint64(r.MinCalls): //nolint:gosec // not negative: validated
			reading.Value = min(float64(bad)/float64(total)/r.FailureRatio, 0.999) // it is not critical before it is open
		}
		return reading
	}}
}

// Signals returns the signals of all islands: of their bulkheads and their breakers.
func (s *Islands) Signals() []Signal {
	signals := make([]Signal, 0, 2*len(s.order))
	for _, l := range s.order {
		signals = append(signals, l.bulkhead.Signal(), l.breaker.Signal())
	}
	return signals
}
