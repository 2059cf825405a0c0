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
