package protection

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// BulkheadOptions says how much work a [Bulkhead] lets run and wait.
type BulkheadOptions struct {
	Name string // a label for errors and alarms

	MaxConcurrent int           // how many units of work may run at once; required
	MaxQueue      int           // how many callers may wait for a slot; default 0: refuse at once when all slots are taken
	MaxWait       time.Duration // the longest wait in the queue; default 1 s
}

const defaultMaxWait = time.Second

// validate returns an error that names the field that cannot be.
func (o BulkheadOptions) validate() error {
	switch {
	case o.MaxConcurrent < 1 || o.MaxConcurrent > math.MaxInt32:
		return fmt.Errorf("protection: BulkheadOptions.MaxConcurrent is %d: it must be at least 1 and at most 2^31-1", o.MaxConcurrent)
	case o.MaxQueue < 0 || o.MaxQueue > math.MaxInt32:
		return fmt.Errorf("protection: BulkheadOptions.MaxQueue is %d: it must not be negative, nor above 2^31-1", o.MaxQueue)
	case o.MaxWait < 0:
		return fmt.Errorf("protection: BulkheadOptions.MaxWait is %v: it must not be negative", o.MaxWait)
	}
	return nil
}

// Bulkhead bounds how much work runs at once (the bulkhead pattern of M. Nygard, "Release It!"), with a bounded queue in
// front for bursts. Safe for concurrent use.
//
// Waiters are served in the order of their arrival, and newest first while the queue stands: while its oldest waiter has
// waited for half of MaxWait or longer. A queue that stands no longer absorbs a burst, it only makes everybody late; then
// the young are served in good time and the old are refused at MaxWait, where order of arrival would serve nobody before
// the caller has lost patience (adaptive LIFO: B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015).
type Bulkhead struct {
	unlimited

	opt  BulkheadOptions
	size atomic.Uint64

	// state is the number of slots taken, and in its upper half that of the callers that wait. While nobody waits, a slot
	// is taken by one compare-and-swap; while somebody does, only under the lock, so that nobody overtakes.
	state    atomic.Uint64
	rejected atomic.Uint64
	full     *RejectedError // without a hint: the refusals of a crowd allocate nothing

	mu    sync.Mutex
	queue waitQueue
}

const oneWaiter = 1 << 32

// NewBulkhead returns an empty bulkhead, or an error that names the option that cannot be.
func NewBulkhead(o BulkheadOptions) (*Bulkhead, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.MaxWait == 0 {
		o.MaxWait = defaultMaxWait
	}
	b := &Bulkhead{opt: o, queue: newWaitQueue(o.MaxWait)}
	b.full = b.refusal(ErrFull, 0)
	b.size.Store(uint64(o.MaxConcurrent)) //nolint:gosec // validated
	return b, nil
}

// Acquire takes a slot, waiting in the queue for at most MaxWait. It returns a [*RejectedError] with [ErrFull] if the
// queue is full, with [ErrWaitTimeout] after MaxWait, or ctx's error if ctx ended first, even if a slot is free.
func (b *Bulkhead) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err // and takes no slot: see golang/go#63615
	}
	if s := b.state.Load(); s < b.size.Load() && b.state.CompareAndSwap(s, s+1) { // as acquire does, without the call
		return Permit{owner: b, grant: grant{mark: 1}}, nil
	}
	return b.acquire(ctx, 1)
}

// AcquireN is Acquire for work that counts as n units: it takes n slots at once or none. A caller at the head of the queue
// that needs more than is free holds up those behind it until it has them, or leaves. An n below 1 or above the size of
// the bulkhead can never be admitted and is an error, which is no [*RejectedError].
func (b *Bulkhead) AcquireN(ctx context.Context, n int) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	if n < 1 || uint64(n) > b.size.Load() {
		return Permit{}, fmt.Errorf("protection: bulkhead %q: a weight of %d: it must be at least 1 and at most %d", b.opt.Name, n, b.size.Load())
	}
	return b.acquire(ctx, uint64(n))
}

// acquire takes n slots, at least 1, under a ctx that has not ended before.
func (b *Bulkhead) acquire(ctx context.Context, n uint64) (Permit, error) {
	for {
		s := b.state.Load()
		if s+n > b.size.Load() { // no slots, or waiters
			break
		}
		if b.state.CompareAndSwap(s, s+n) {
			return Permit{owner: b, grant: grant{mark: n}}, nil
		}
	}
	if b.opt.MaxQueue == 0 {
		b.rejected.Add(1)
		return Permit{}, b.full
	}
	if err := b.wait(ctx, n); err != nil {
		return Permit{}, err
	}
	return Permit{owner: b, grant: grant{mark: n}}, nil
}

// wait queues for n slots. When it returns nil, the caller has them.
func (b *Bulkhead) wait(ctx context.Context, n uint64) error {
	w := &waiter{ctx: ctx, weight: n}
	if admitted, err := b.enqueue(w); admitted || err != nil {
		return err
	}
	timer := time.NewTimer(b.opt.MaxWait)
	defer timer.Stop()
	select {
	case <-w.decided:
	case <-ctx.Done():
		b.leave(w, ctx.Err())
	case <-timer.C:
		b.leave(w, b.refusal(ErrWaitTimeout, 0))
	}
	if w.err != nil {
		b.countRefusal(w.err)
		return w.err
	}
	if err := ctx.Err(); err != nil { // admitted too late: what it does not use it must not hold
		b.release(n)
		return err
	}
	return nil
}

// enqueue puts w into the queue, unless its slots have become free, or the queue is full.
func (b *Bulkhead) enqueue(w *waiter) (admitted bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		s := b.state.Load()
		switch {
		case s+w.weight <= b.size.Load():
			if b.state.CompareAndSwap(s, s+w.weight) {
				return true, nil
			}
		case s/oneWaiter >= uint64(b.opt.MaxQueue): //nolint:gosec // validated
			b.rejected.Add(1)
			return false, b.refusal(ErrFull, b.queue.room(b.queue.now()))
		case b.state.CompareAndSwap(s, s+oneWaiter):
			b.queue.push(w)
			b.serve() // if the queue stands, w is the first
			return false, nil
		}
	}
}

// leave takes w out of the queue, if it is still there, and lets those that it held up go.
func (b *Bulkhead) leave(w *waiter, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.undecided() {
		return
	}
	b.decide(w, err)
	b.serve()
}

// decide ends a wait, under the lock. A nil error gives w its slots.
func (b *Bulkhead) decide(w *waiter, err error) {
	slots := uint64(0)
	if err == nil {
		slots = w.weight
	}
	b.state.Add(slots - oneWaiter) // in one step, around zero
	b.queue.decide(w, err)
}

// serve admits waiters for as long as there are slots for the first of them. It runs under the lock.
func (b *Bulkhead) serve() {
	now := b.queue.now()
	for w := b.queue.first(now); w != nil; w = b.queue.first(now) {
		switch {
		case w.ctx.Err() != nil:
			b.decide(w, w.ctx.Err())
		case b.queue.late(w, now):
			b.decide(w, b.refusal(ErrWaitTimeout, 0))
		case b.state.Load()%oneWaiter+w.weight <= b.size.Load():
			b.decide(w, nil)
		case w.weight > b.size.Load(): // since a Resize
			b.decide(w, b.full)
		default:
			return
		}
	}
}

// end gives back what a permit holds.
func (b *Bulkhead) end(g grant, _ Outcome) { b.release(g.mark) }

// release gives n slots back.
func (b *Bulkhead) release(n uint64) {
	if b.state.Add(-n) >= oneWaiter { // around zero
		b.handOver()
	}
}

// handOver gives free slots to those who wait for them.
func (b *Bulkhead) handOver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serve()
}

// Resize changes how many units of work may run at once. More slots go to waiters at once. Fewer are reached as work
// ends: nothing that runs is stopped, and calls of Acquire that run at the same time may still see the old size. A waiter
// that needs more slots than there are now is refused with [ErrFull].
func (b *Bulkhead) Resize(n int) error {
	if n < 1 || n > math.MaxInt32 {
		return fmt.Errorf("protection: bulkhead %q: a size of %d: it must be at least 1 and at most 2^31-1", b.opt.Name, n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size.Store(uint64(n))
	b.serve()
	return nil
}

func (b *Bulkhead) refusal(reason error, retryAfter time.Duration) *RejectedError {
	return &RejectedError{Name: b.opt.Name, Policy: "bulkhead", Reason: reason, RetryAfter: retryAfter}
}

// countRefusal counts err if it is a refusal and no error of a ctx.
func (b *Bulkhead) countRefusal(err error) {
	if _, ok := err.(*RejectedError); ok { //nolint:errorlint // made here, never wrapped
		b.rejected.Add(1)
	}
}

// InFlight returns how many slots are taken; never more than MaxConcurrent, or the highest size that was set.
func (b *Bulkhead) InFlight() int { return int(b.state.Load() % oneWaiter) }

// Queued returns how many callers wait; never more than MaxQueue.
func (b *Bulkhead) Queued() int { return int(b.state.Load() / oneWaiter) } //nolint:gosec // 32 bits

// Rejected returns how many calls have been refused.
func (b *Bulkhead) Rejected() uint64 { return b.rejected.Load() }

// Size returns how many units of work may run at once.
func (b *Bulkhead) Size() int { return int(b.size.Load()) } //nolint:gosec // set from an int
