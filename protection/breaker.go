package protection

import (
	"context"
	"sync"
	"sync/atomic"
)

// Breaker is a circuit breaker (M. Nygard, "Release It!") over a sliding window of time. While closed it admits every
// call and counts how they end; when too many failed or timed out it opens and refuses, but for one trial call every
// OpenFor. A trial that succeeds in less than CloseUnder closes it. One breaker guards one dependency. Safe for
// concurrent use; no call of a method waits for another's, or for a listener.
//
// A result belongs to the period of one state that admitted its call: what began before a trip can neither close the
// breaker nor trip it again.
type Breaker struct {
	time       timeline
	rules      atomic.Pointer[rules]
	current    atomic.Pointer[generation]
	recoveries atomic.Uint64
	lanes      int
	member     bool // of a Group, which must know whether calls are in flight

	transition sync.Mutex // keeps the order of events that of the generations; the state itself needs no lock
	flightIDs  uint64     // of flights that Update has made; under transition
	events     mailbox
}

// NewBreaker returns a closed breaker, or an error that names the option that cannot be.
func NewBreaker(o BreakerOptions) (*Breaker, error) {
	return newBreaker(o, enoughLanes(), false)
}

func newBreaker(o BreakerOptions, lanes int, member bool) (*Breaker, error) {
	r, err := newRules(o)
	if err != nil {
		return nil, err
	}
	b := &Breaker{time: newTimeline(o.Clock), lanes: lanes, member: member}
	b.rules.Store(r)
	b.current.Store(b.closed(r, b.time.exact(), ""))
	return b, nil
}

// Acquire admits the call if the breaker is closed or if it is the trial call that is due; otherwise it returns a
// [*RejectedError] with [ErrOpen] and the time until the next trial. It never waits. A ctx that has ended gets its error
// and takes no trial. The permit of a trial has a [Permit.Limit].
func (b *Breaker) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	now := b.time.now()
	if g := b.current.Load(); g.state == Closed {
		if g.plain(now) {
			return Permit{owner: g, grant: grant{start: now}}, nil
		}
	} else if next := g.nextTrial.Load(); now >= next {
		now = b.time.exact() // trials are rare, and timed
	} else if e := g.known(now, next, b.rules.Load()); e != nil {
		g.ring.Load().add(now, rejected)
		return Permit{}, e
	}
	return b.acquire(now)
}

// acquire is Acquire at a given time.
func (b *Breaker) acquire(now int64) (Permit, error) {
	g := b.current.Load()
	if g.state == Closed {
		f := g.flights.Load()
		if f != nil && f.due(now) && g.judge(now) {
			return b.acquire(now) // what hangs has tripped it
		}
		return g.admit(now, f)
	}
	r := b.rules.Load()
	if next := g.nextTrial.Load(); now >= next && g.takeTrial(now, next, r) {
		return Permit{owner: g, grant: grant{start: now, mark: markTrial(later(now, r.OpenFor))}}, nil
	}
	return g.refuse(now, r)
}

// Ready returns the error that Acquire would give now, nil if it would admit. It consumes and counts nothing. While the
// share of calls rises after a trial (Ramp) it returns nil, although Acquire may refuse.
func (b *Breaker) Ready() error { return b.ready(b.time.now()) }

func (b *Breaker) ready(now int64) error {
	g, r := b.current.Load(), b.rules.Load()
	if g.state == Closed || r.Shadow {
		return nil
	}
	if now >= g.nextTrial.Load() {
		if place, _ := g.trials.free(now, r); place != nil {
			return nil
		}
	}
	return g.refusal(now, r)
}

// look is Ready for a call that ends with the refusal. It also notices what hangs, since it may be all that a chain with
// a full bulkhead ever asks.
func (b *Breaker) look(context.Context) error { return b.lookAt(b.time.now()) }

func (b *Breaker) lookAt(now int64) error {
	g := b.current.Load()
	if g.state == Closed {
		f := g.flights.Load()
		if f == nil || !f.due(now) || !g.judge(now) {
			return nil
		}
		g = b.current.Load()
	}
	r := b.rules.Load()
	if r.Shadow || g.state == Closed {
		return nil
	}
	if next := g.nextTrial.Load(); now >= next && !g.hang(now, next, r) {
		return nil
	}
	_, err := g.refuse(now, r)
	return err
}

// State returns the state that the breaker is in.
func (b *Breaker) State() State { return b.current.Load().visible() }

// Recoveries returns how many times the breaker has closed again. A cache that remembers failures drops them when it
// rises.
func (b *Breaker) Recoveries() uint64 { return b.recoveries.Load() }
