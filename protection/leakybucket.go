package protection

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// LeakyBucketOptions says how a [LeakyBucket] paces work.
type LeakyBucketOptions struct {
	Name string // a label for errors

	Rate     float64 // units of work per second, evenly spaced; required; math.Inf(1) for no limit
	MaxQueue int     // how many may wait for their turn; default what Rate takes in a second, at least 1; negative: none
}

// LeakyBucket smooths work: it admits one unit every 1/Rate seconds, in the order of arrival, and a bounded queue waits in
// front (J. Turner's leaky bucket, used as a queue). A rest saves up nothing. Safe for concurrent use.
//
// What a late timer has cost while callers queued is made up for: up to 10 ms·Rate of them may follow without a gap.
type LeakyBucket struct {
	name string
	base time.Time

	mu       sync.Mutex
	maxQueue int
	gap      moment // from one turn to the next
	last     moment // the latest turn
	queue    turns
}

// makeUp is how much lateness of timers is made up for.
const makeUp = 10 * time.Millisecond

// NewLeakyBucket returns a bucket with an empty queue, or an error that names the option that cannot be.
func NewLeakyBucket(o LeakyBucketOptions) (*LeakyBucket, error) {
	if math.IsNaN(o.Rate) || o.Rate <= 0 {
		return nil, fmt.Errorf("protection: LeakyBucketOptions.Rate is %v: it must be above 0", o.Rate)
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = int(min(math.MaxInt32, max(1, o.Rate)))
	}
	return &LeakyBucket{
		name: o.Name, base: time.Now(), maxQueue: max(o.MaxQueue, 0), gap: gapOf(o.Rate), last: moment{ns: math.MinInt64 / 4},
	}, nil
}

// Acquire waits for its turn. It returns a [*RejectedError] at once, with the time until it may be worth another try, if the
// queue is full ([ErrFull]), or if the turn would be after ctx's deadline or never ([ErrLimited]). If ctx ends during the
// wait, its error is returned and all who wait behind move up. The permit holds nothing: the turn has been taken, however
// the work ends.
func (b *LeakyBucket) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	t, err := b.arrive(ctx)
	if err != nil {
		return Permit{}, err
	}
	if t != nil {
		if err := b.wait(ctx, t); err != nil {
			return Permit{}, err
		}
	}
	return Permit{owner: nothing{}}, nil
}

// SetRate changes the rate to so many units per second, at once and for those who wait too. 0 is closed: those who wait go
// on waiting, others are refused, until the next SetRate. An error says that the rate cannot be, and nothing has changed.
func (b *LeakyBucket) SetRate(perSecond float64) error {
	if math.IsNaN(perSecond) || perSecond < 0 {
		return fmt.Errorf("protection: the rate of a leaky bucket cannot be %v: it must not be negative", perSecond)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gap = gapOf(perSecond)
	b.queue.wakeFirst()
	return nil
}

// Queued returns how many callers wait for their turn; never more than MaxQueue.
func (b *LeakyBucket) Queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.n
}

func (b *LeakyBucket) now() int64 { return int64(time.Since(b.base)) }

// arrive takes the turn that is due, and returns nil, or a place in the queue.
func (b *LeakyBucket) arrive(ctx context.Context) (*turn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	due := b.last.plus(b.gap, 1)
	switch {
	case b.gap.ns >= farOff:
		return nil, b.refuse(ErrLimited, never)
	case b.queue.n == 0 && due.reached(now):
		b.last = moment{ns: now}
		return nil, nil //nolint:nilnil // no wait is no error
	case b.queue.n >= b.maxQueue:
		return nil, b.refuse(ErrFull, due.after(now)) // by then one has left the queue
	}
	if deadline, ok := ctx.Deadline(); ok {
		if wait := b.last.plus(b.gap, b.queue.n+1).after(now); wait > time.Until(deadline) {
			return nil, b.refuse(ErrLimited, wait)
		}
	}
	t := &turn{wake: make(chan struct{}, 1)}
	b.queue.push(t)
	return t, nil
}

// wait returns when t's turn has come. Only the first in the queue has a timer; it wakes the next.
func (b *LeakyBucket) wait(ctx context.Context, t *turn) error {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		due, first := b.dueTo(t)
		if first {
			timer.Reset(due)
		}
		select {
		case <-timer.C:
			if b.takeTurn(t) {
				return nil
			}
		case <-t.wake: // it is the first now, or the rate has changed
		case <-ctx.Done():
			b.leave(t)
			return ctx.Err()
		}
	}
}

// dueTo returns how long the first in the queue has to wait, and whether that is t.
func (b *LeakyBucket) dueTo(t *turn) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last.plus(b.gap, 1).after(b.now()), b.queue.first == t
}

// takeTurn lets t go if its turn has come.
func (b *LeakyBucket) takeTurn(t *turn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	due := b.last.plus(b.gap, 1)
	if b.queue.first != t || !due.reached(now) {
		return false
	}
	if earliest := now - int64(makeUp); due.ns < earliest {
		due = moment{ns: earliest}
	}
	b.last = due
	b.queue.remove(t)
	b.queue.wakeFirst()
	return true
}

func (b *LeakyBucket) leave(t *turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasFirst := b.queue.first == t
	b.queue.remove(t)
	if wasFirst {
		b.queue.wakeFirst()
	}
}

func (b *LeakyBucket) refuse(reason error, retry time.Duration) error {
	return &RejectedError{Name: b.name, Policy: "leaky bucket", Reason: reason, RetryAfter: retry}
}
