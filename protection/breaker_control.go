package protection

import (
	"errors"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// ForceOpen opens the breaker, for the given reason, until a time after which the first trial call is due. The zero time
// is for ever. It ends an earlier force of either kind; until time.Now() it makes a trial due at once.
func (b *Breaker) ForceOpen(reason string, until time.Time) {
	b.force(func(r *rules, now int64) (*generation, observe.Event) {
		why := "forced: " + reason
		return b.open(r, now, b.when(now, until), why), r.event(observe.BreakerOpened, "circuit breaker opened: "+why)
	})
}

// ForceClosed closes the breaker and keeps it from tripping until the given time, after which the next failure may trip
// it for what the window then holds. The zero time is for ever. It ends an earlier force of either kind; until time.Now()
// it only closes.
func (b *Breaker) ForceClosed(until time.Time) {
	b.force(func(r *rules, now int64) (*generation, observe.Event) {
		g := b.closed(r, now, "forced")
		g.held = b.when(now, until)
		return g, r.event(observe.BreakerClosed, "circuit breaker closed: forced")
	})
}

// force changes the state whatever it is.
func (b *Breaker) force(next func(r *rules, now int64) (*generation, observe.Event)) {
	for {
		r, now := b.rules.Load(), b.time.exact()
		if b.become(b.current.Load(), r, func() (*generation, observe.Event) { return next(r, now) }) {
			return
		}
	}
}

// when puts a time of the caller's on the breaker's own timeline. Times that were made of time.Now are compared on the
// monotonic clock.
func (b *Breaker) when(now int64, until time.Time) int64 {
	if until.IsZero() {
		return forever
	}
	return later(now, max(0, time.Until(until)))
}

// Update puts other options in force and keeps the state and the counts. Calls in flight do not count as overdue if
// OverdueAfter changes. The Clock cannot change: leave it nil or as it was. On an error nothing has changed.
func (b *Breaker) Update(o BreakerOptions) error {
	r, err := newRules(o)
	if err != nil {
		return err
	}
	if o.Clock != nil && o.Clock != b.time.clock {
		return errors.New("protection: BreakerOptions.Clock is another one: it cannot change")
	}
	b.transition.Lock()
	defer b.transition.Unlock()
	old := b.rules.Swap(r)
	g := b.current.Load()
	if r.Window != old.Window {
		from, to := g.ring.Load(), newRing(r.Window, b.lanes)
		from.copyTo(to, b.time.exact())
		g.ring.Store(to)
	}
	if r.OverdueAfter != old.OverdueAfter {
		var f *flights
		if b.member || r.OverdueAfter > 0 {
			f = newFlights(r.OverdueAfter)
			b.flightIDs++
			f.id = b.flightIDs
		}
		g.flights.Store(f)
	}
	return nil
}
