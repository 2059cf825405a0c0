package protection

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// Breaker is a circuit breaker (M. Nygard, "Release It!") over a sliding window of time. While closed it admits every
// call and counts how they end; when too many failed or timed out it opens and refuses, but for one trial call every
// OpenFor. A trial that succeeds in less than CloseUnder closes it. Safe for concurrent use.
//
// A result belongs to the period of one state that admitted its call: what began before a trip can neither close the
// breaker nor trip it again.
type Breaker struct {
	opt  BreakerOptions
	born time.Time

	mu         sync.Mutex
	current    *period
	recoveries uint64
}

// period is the time that a breaker spends closed, or open, in one stretch. Permits point to theirs.
type period struct {
	b     *Breaker
	open  bool
	calls window // while closed

	// While open. Trials are numbered so that one that comes back late does not free the slot of a later one.
	trial     uint64
	trying    bool          // the latest trial is still out
	nextTrial time.Duration // when the next one may start, whatever has become of the last: a hung trial wedges nothing
}

// NewBreaker returns a closed breaker, or an error that names the option that cannot be.
func NewBreaker(o BreakerOptions) (*Breaker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Breaker{opt: o, born: time.Now()}
	b.current = &period{b: b, calls: newWindow(o.Window)}
	return b, nil
}

// now is monotonic time since the breaker was made, which no step of the wall clock moves.
func (b *Breaker) now() time.Duration { return time.Since(b.born) }

// Acquire admits the call if the breaker is closed or if it is the trial call that is due; otherwise it returns a
// [*RejectedError] with [ErrOpen] and the time until the next trial. It never waits. A ctx that has ended gets its error
// and takes no trial.
func (b *Breaker) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, p := b.now(), b.current
	if err := b.refusal(p, now); err != nil {
		return Permit{}, err
	}
	if p.open {
		p.trial++
		p.trying = true
		p.nextTrial = now + b.opt.OpenFor
	}
	trial := p.trial
	return Permit{owner: p, grant: grant{int64(now), trial}}, nil
}

// Ready returns the error that Acquire would give now, nil if it would admit. It consumes nothing.
func (b *Breaker) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal(b.current, b.now())
}

// refusal returns nil if a call may start in period p now. It runs under the lock.
func (b *Breaker) refusal(p *period, now time.Duration) error {
	if !p.open || now >= p.nextTrial {
		return nil
	}
	return &RejectedError{Name: b.opt.Name, Policy: "breaker", Reason: ErrOpen, RetryAfter: p.nextTrial - now}
}

func (p *period) end(g grant, o Outcome) { p.b.end(p, g.mark, time.Duration(g.start), o) }

// end takes the outcome of a call that period p admitted at the time begun.
func (b *Breaker) end(p *period, trial uint64, begun time.Duration, o Outcome) {
	b.mu.Lock()
	var event observe.Event
	switch {
	case p != b.current: // the state has changed since: the result says nothing about now
	case p.open:
		event = b.judge(p, trial, begun, o)
	default:
		event = b.count(p, o)
	}
	b.mu.Unlock()
	if event.Kind != "" {
		observe.Emit(b.opt.Observer, event)
	}
}

// count takes a result while closed, and trips if it was one too many. It runs under the lock.
func (b *Breaker) count(p *period, o Outcome) (event observe.Event) {
	bad := o == Failure || o == Timeout
	if !bad && o != Success {
		return event
	}
	now := b.now()
	p.calls.add(now, bad)
	if !bad { // only a bad result can raise the ratio
		return event
	}
	total, failed := p.calls.sum(now)
	if !b.tooMany(total, failed) {
		return event
	}
	b.current = &period{b: b, open: true, nextTrial: now + b.opt.OpenFor}
	return observe.Event{
		At: time.Now(), Kind: observe.BreakerOpened, Level: observe.Critical, Source: b.opt.Name,
		Message: fmt.Sprintf("circuit breaker opened: %d of %d calls failed or timed out within %v", failed, total, b.opt.Window),
	}
}

// tooMany is the rule. It counts in integers, so that exactly half is never more than half.
func (b *Breaker) tooMany(total, failed uint64) bool {
	const whole = 1_000_000
	part := uint64(math.Round(b.opt.FailureRatio * whole))
	if total <= uint64(b.opt.MinCalls) { //nolint:gosec // not negative: validated
		return false
	}
	return failed*whole > part*total || failed == total // nothing is more than everything, so all of them is enough
}

// judge takes the result of a trial. It runs under the lock.
func (b *Breaker) judge(p *period, trial uint64, begun time.Duration, o Outcome) (event observe.Event) {
	now := b.now()
	took := now - begun
	if o == Success && took < b.opt.CloseUnder {
		b.current = &period{b: b, calls: newWindow(b.opt.Window)}
		b.recoveries++
		return observe.Event{
			At: time.Now(), Kind: observe.BreakerClosed, Level: observe.Info, Source: b.opt.Name,
			Message: "circuit breaker closed: the trial call succeeded", Duration: took,
		}
	}
	if trial != p.trial {
		return event // another trial is out by now
	}
	p.trying = false
	if o != Success && o != Failure && o != Timeout {
		p.nextTrial = now // it decided nothing, so its slot is free at once
	}
	return event
}

// State returns the state that the breaker is in.
func (b *Breaker) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.current.open:
		return Closed
	case b.current.trying:
		return HalfOpen
	default:
		return Open
	}
}

// Recoveries returns how many times the breaker has closed again. A cache that remembers failures drops them when it rises.
func (b *Breaker) Recoveries() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recoveries
}
