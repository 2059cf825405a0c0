package protection

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// generation is the time that a breaker spends closed, or open, in one stretch. Permits point to theirs, so that nothing of
// it needs to be cleared: the next one begins with an empty ring, and results of this one are lost on it.
type generation struct {
	b      *Breaker
	state  State // Closed or Open
	since  int64
	reason string // why it is open, or was forced closed
	ring   atomic.Pointer[ring]

	// While closed.
	held      int64 // it does not trip before: somebody has forced it closed
	rampStart int64 // while now is below rampEnd, only a share of the calls is admitted
	rampEnd   int64
	tickets   atomic.Uint64           // counts the calls during the ramp
	flights   atomic.Pointer[flights] // nil if nobody asks for them

	// While open.
	nextTrial atomic.Int64            // when the next may start, whatever has become of the last: a hung trial wedges nothing
	trials    trials                  // those that are out
	hung      atomic.Bool             // the alarm that too many are out is on
	last      atomic.Pointer[refusal] // that of this millisecond
}

// Marks of permits. Zero is a plain one.
const (
	markBits   = 2
	markShadow = 1 // would have been refused
	ofTrial    = 2 // the rest is when the next was to start
	ofFlight   = 3 // the rest is the id of the flights that it is in
)

func markTrial(next int64) uint64 { return uint64(next)<<markBits | ofTrial } //nolint:gosec // a time is not negative

// closed returns a generation that admits all calls.
func (b *Breaker) closed(r *rules, now int64, reason string) *generation {
	g := &generation{b: b, state: Closed, since: now, reason: reason, held: math.MinInt64, rampEnd: math.MinInt64}
	g.ring.Store(newRing(r.Window, b.lanes))
	if b.member || r.OverdueAfter > 0 {
		g.flights.Store(newFlights(r.OverdueAfter))
	}
	return g
}

// open returns a generation that admits trials only, the first one at the given time.
func (b *Breaker) open(r *rules, now, trial int64, reason string) *generation {
	g := &generation{b: b, state: Open, since: now, reason: reason}
	g.ring.Store(newRing(r.Window, b.lanes))
	g.nextTrial.Store(trial)
	return g
}

// become ends generation from and begins another, unless another call has ended it before. That call's event is told.
func (b *Breaker) become(from *generation, r *rules, next func() (*generation, observe.Event)) bool {
	b.transition.Lock()
	defer b.transition.Unlock()
	if b.current.Load() != from {
		return false
	}
	to, event := next()
	if !b.current.CompareAndSwap(from, to) {
		return false
	}
	if from.state == Open && to.state == Closed {
		b.recoveries.Add(1)
	}
	from.calm(r)
	b.events.put(r.Observer, event)
	return true
}

func (g *generation) visible() State {
	if g.state == Open && g.trials.out() > 0 {
		return HalfOpen
	}
	return g.state
}

// plain reports whether the generation, which is closed, simply admits.
func (g *generation) plain(now int64) bool { return now >= g.rampEnd && g.flights.Load() == nil }

// limit bounds how long a trial may run.
func (g *generation) limit(gr grant) time.Duration {
	if gr.mark%(1<<markBits) != ofTrial {
		return 0
	}
	r := g.b.rules.Load()
	if r.Shadow {
		return 0
	}
	return r.TrialTimeout
}

// end takes the outcome of a call.
func (g *generation) end(gr grant, o Outcome) {
	if gr.mark%(1<<markBits) == ofTrial {
		g.endTrial(gr, o, g.b.time.exact())
		return
	}
	g.endCall(gr, o, g.b.time.now())
}

// endCall takes the outcome of a call that was admitted while closed.
func (g *generation) endCall(gr grant, o Outcome, now int64) {
	if gr.mark != 0 && !g.unmark(gr) {
		return
	}
	if g.b.current.Load() != g {
		return // the state has changed since: the result says nothing about now
	}
	rg := g.ring.Load()
	k := kind(o - Success)
	rg.add(now, k)
	if k == cancelled {
		return
	}
	check := k != success
	if r := g.b.rules.Load(); r.SlowAfter > 0 && now-gr.start > int64(r.SlowAfter) {
		rg.add(now, slow)
		check = true
	}
	if check {
		g.judge(now)
	}
}

// unmark ends what a marked permit holds, and reports whether its result counts.
func (g *generation) unmark(gr grant) bool {
	if gr.mark == markShadow {
		return false
	}
	if f := g.flights.Load(); f != nil && f.id == gr.mark>>markBits {
		f.leave(gr.start)
	}
	return true
}

// judge trips the breaker if the rules say so, and reports whether the generation has ended.
func (g *generation) judge(now int64) bool {
	if now < g.held {
		return false
	}
	b := g.b
	r := b.rules.Load()
	n := g.ring.Load().sum(now)
	var overdue uint64
	if f := g.flights.Load(); f != nil {
		overdue = f.overdue(now)
	}
	cause := r.trips(&n, overdue)
	if cause == "" {
		return false
	}
	b.become(g, r, func() (*generation, observe.Event) {
		return b.open(r, now, later(now, r.OpenFor), cause), r.event(observe.BreakerOpened, "circuit breaker opened: "+cause)
	})
	return b.current.Load() != g
}

// verdict says what an error tells: the classifier's word, but for a deadline that the caller has set too short.
func (g *generation) verdict(ctx context.Context, gr grant, limit time.Duration, err error) Outcome {
	o := g.b.rules.Load().Classify(err)
	if o != Timeout {
		return o
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return o
	}
	left := time.Until(deadline)
	if left > 0 {
		return o // it was a timeout of the work's own
	}
	enough := fairDeadline
	if limit > 0 {
		enough = min(enough, limit)
	}
	if had := time.Duration(g.b.time.exact()-gr.start) + left; had < enough {
		return Ignored
	}
	return o
}

// fairDeadline is how long a caller must have waited for its deadline to say something about the dependency.
const fairDeadline = 100 * time.Millisecond

// forever is past any time that a breaker sees, and leaves room for a mark.
const forever = math.MaxInt64 >> markBits

// later adds without overflow.
func later(now int64, d time.Duration) int64 { return now + min(int64(d), forever-now) }
