package protection

import "time"

// BreakerSnapshot is what a [Breaker] was at one moment. Counts are of the window, and of the time since the state began
// if that is shorter.
type BreakerSnapshot struct {
	State  State
	For    time.Duration // how long it has been in it; a trial is part of being open
	Reason string        // why it is open, or "forced" if it was forced closed
	Share  int           // of the calls, in percent, that it admits: below 100 while open and on the ramp

	Success, Failure, Timeout uint64
	Slow                      uint64 // of those three, if SlowAfter is set
	Cancelled                 uint64 // judged Ignored
	Rejected                  uint64 // refused, or in shadow mode what would have been
	Overdue                   uint64 // in flight for longer than OverdueAfter
	Trials                    int    // out now

	Recoveries uint64 // since it was made
}

// Snapshot returns the breaker's state and counts. What ends at the same time may be missing.
func (b *Breaker) Snapshot() BreakerSnapshot {
	return b.snapshot(b.time.now())
}

func (b *Breaker) snapshot(now int64) BreakerSnapshot {
	g := b.current.Load()
	n := g.ring.Load().sum(now)
	s := BreakerSnapshot{
		State: g.visible(), For: time.Duration(max(0, now-g.since)), Reason: g.reason, Share: int(g.share(now)), //nolint:gosec // at most 100
		Success: n[success], Failure: n[failure], Timeout: n[timeout], Slow: n[slow], Cancelled: n[cancelled], Rejected: n[rejected],
		Trials: g.trials.out(), Recoveries: b.recoveries.Load(),
	}
	if f := g.flights.Load(); f != nil {
		s.Overdue = f.overdue(now)
	}
	return s
}
