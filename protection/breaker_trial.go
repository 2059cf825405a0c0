package protection

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// maxTrials is how many trial calls may be out at once. Each was given up for the next one; more would only pile up on
// a dependency that hangs.
const maxTrials = 3

// writeOff is after how many times the longest pause between trials one that has not come back loses its place: three whose
// work ignores its ctx would otherwise keep the breaker open for ever.
const writeOff = 10

// trials are the places of the trial calls that are out. Each holds the time at which the trial after it was due, which no
// two have in common; 0 is a free place.
type trials [maxTrials]atomic.Int64

// out returns how many are out.
func (t *trials) out() (n int) {
	for i := range t {
		if t[i].Load() != 0 {
			n++
		}
	}
	return n
}

// free returns a place that may be taken, and what it holds.
func (t *trials) free(now int64, r *rules) (place *atomic.Int64, held int64) {
	for i := range t {
		held = t[i].Load()
		if held == 0 || (now-held)/writeOff >= int64(max(r.OpenFor, r.TrialTimeout)) {
			return &t[i], held
		}
	}
	return nil, 0
}

// take takes a place for a trial after which the next is due at the given time.
func (t *trials) take(now, next int64, r *rules) bool {
	for {
		place, held := t.free(now, r)
		if place == nil {
			return false
		}
		if place.CompareAndSwap(held, next) {
			return true
		}
	}
}

// end gives back the place of the trial after which the next was due at the given time, unless it has lost it.
func (t *trials) end(next int64) {
	for i := range t {
		if t[i].CompareAndSwap(next, 0) {
			return
		}
	}
}

// takeTrial reports whether the caller is the one that gets the trial which was due at next.
func (g *generation) takeTrial(now, next int64, r *rules) bool {
	after := later(now, r.OpenFor)
	return !g.hang(now, next, r) && g.nextTrial.CompareAndSwap(next, after) && g.trials.take(now, after, r)
}

// hang reports whether the trial that was due at next is not to be, since too many are out. It puts it off then.
func (g *generation) hang(now, next int64, r *rules) bool {
	if place, _ := g.trials.free(now, r); place != nil {
		return false
	}
	if g.nextTrial.CompareAndSwap(next, later(now, r.OpenFor)) && g.hung.CompareAndSwap(false, true) {
		g.b.events.put(r.Observer, r.alarm(observe.Raised, observe.Critical,
			fmt.Sprintf("circuit breaker stays open: %d trial calls hang", maxTrials),
			slog.Int("trials", maxTrials), slog.Duration("open", time.Duration(now-g.since))))
	}
	return true
}

// calm ends the alarm that trials hang, if it is on.
func (g *generation) calm(r *rules) {
	if g.hung.CompareAndSwap(true, false) {
		g.b.events.put(r.Observer, r.alarm(observe.Cleared, observe.Info, "a trial call of the circuit breaker came back, or it has closed"))
	}
}

// endTrial takes the outcome of a trial call.
func (g *generation) endTrial(gr grant, o Outcome, now int64) {
	b := g.b
	r := b.rules.Load()
	g.trials.end(int64(gr.mark >> markBits))
	g.calm(r)
	if b.current.Load() != g {
		return
	}
	g.ring.Load().add(now, kind(o-Success))
	took := time.Duration(now - gr.start)
	switch {
	case o == Success && took < r.CloseUnder:
		b.become(g, r, func() (*generation, observe.Event) {
			to := b.closed(r, now, "")
			to.rampStart, to.rampEnd = now, now
			if r.Ramp > 0 {
				to.rampEnd = later(now, r.Ramp)
			}
			e := r.event(observe.BreakerClosed, "circuit breaker closed: the trial call succeeded")
			e.Duration = took
			return to, e
		})
	case o == Ignored:
		// It decided nothing, so the next may start at once, unless it has.
		g.nextTrial.CompareAndSwap(int64(gr.mark>>markBits), now)
	}
}

// refuse counts a call that may not start, and returns why; in shadow mode it lets the call pass all the same.
func (g *generation) refuse(now int64, r *rules) (Permit, error) {
	g.ring.Load().add(now, rejected)
	if r.Shadow {
		return Permit{owner: g, grant: grant{start: now, mark: markShadow}}, nil
	}
	return Permit{}, g.refusal(now, r)
}

// refusal returns the error of a call that may not start now. Those of one millisecond share it, so that a refusal costs
// next to nothing.
func (g *generation) refusal(now int64, r *rules) error {
	next := g.nextTrial.Load()
	switch {
	case g.state == Closed:
		next = g.rampStep(now)
	case next <= now: // the trial that is due is not to be: see hang
		next = later(now, r.OpenFor)
	}
	if e := g.known(now, next, r); e != nil {
		return e
	}
	e := &refusal{RejectedError{Name: r.Name, Policy: "breaker", Reason: ErrOpen}, r}
	if next != forever {
		e.RetryAfter = time.Duration(next - now + int64(time.Millisecond) - 1).Truncate(time.Millisecond)
	}
	g.last.Store(e)
	return &e.RejectedError
}

// refusal is the error of the calls of one millisecond, under the same rules.
type refusal struct {
	RejectedError
	rules *rules
}

// known returns the last refusal if it says what one made now would, when the next call is admitted at the given time.
func (g *generation) known(now, next int64, r *rules) *RejectedError {
	e := g.last.Load()
	if e == nil || e.rules != r {
		return nil
	}
	if next == forever {
		if e.RetryAfter != 0 {
			return nil
		}
	} else if uint64(int64(e.RetryAfter)-(next-now)) >= uint64(time.Millisecond) { //nolint:gosec // below zero is too much as well
		return nil
	}
	return &e.RejectedError
}
