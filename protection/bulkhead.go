package protection

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// BulkheadOptions says how much work a [Bulkhead] lets run and wait.
type BulkheadOptions struct {
	Name string // a label for errors

	MaxConcurrent int           // how many units of work may run at once; required
	MaxQueue      int           // how many may wait for a slot; default 0: refuse at once when all slots are taken
	MaxWait       time.Duration // the longest wait in the queue; default 1 s
}

const defaultMaxWait = time.Second

// Bulkhead bounds how much work runs at once, with a bounded queue in front (the bulkhead pattern of M. Nygard,
// "Release It!"). Waiters are served in the order of their arrival. Safe for concurrent use.
type Bulkhead struct {
	opt      BulkheadOptions
	slots    *semaphore.Weighted
	inFlight atomic.Int64
	queued   atomic.Int64
}

// NewBulkhead returns an empty bulkhead, or an error that names the option that cannot be.
func NewBulkhead(o BulkheadOptions) (*Bulkhead, error) {
	switch {
	case o.MaxConcurrent < 1:
		return nil, fmt.Errorf("protection: BulkheadOptions.MaxConcurrent is %d: it must be at least 1", o.MaxConcurrent)
	case o.MaxQueue < 0:
		return nil, fmt.Errorf("protection: BulkheadOptions.MaxQueue is %d: it must not be negative", o.MaxQueue)
	case o.MaxWait < 0:
		return nil, fmt.Errorf("protection: BulkheadOptions.MaxWait is %v: it must not be negative", o.MaxWait)
	}
	if o.MaxWait == 0 {
		o.MaxWait = defaultMaxWait
	}
	return &Bulkhead{opt: o, slots: semaphore.NewWeighted(int64(o.MaxConcurrent))}, nil
}

// Acquire takes a slot, waiting in the queue for at most MaxWait. It returns a [*RejectedError] with [ErrFull] if the
// queue is full, with [ErrWaitTimeout] after MaxWait, or ctx's error if ctx ended first, even if a slot is free.
func (b *Bulkhead) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err // and takes no slot: see golang/go#63615
	}
	if !b.slots.TryAcquire(1) {
		if err := b.wait(ctx); err != nil {
			return Permit{}, err
		}
	}
	b.inFlight.Add(1)
	return Permit{owner: b}, nil
}

func (b *Bulkhead) end(grant, Outcome) {
	b.inFlight.Add(-1) // before the slot is free, so that InFlight never exceeds MaxConcurrent
	b.slots.Release(1)
}

// wait queues for a slot. When it returns nil, the caller has one.
func (b *Bulkhead) wait(ctx context.Context) error {
	if !b.enqueue() {
		return b.refuse(ErrFull)
	}
	defer b.queued.Add(-1)
	bounded, cancel := context.WithTimeout(ctx, b.opt.MaxWait)
	defer cancel()
	if err := b.slots.Acquire(bounded, 1); err == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.refuse(ErrWaitTimeout)
}

// enqueue takes a place in the queue if there is one. It never adds first and takes back later: a crowd of refused callers
// must not make the queue look full to one that would fit.
func (b *Bulkhead) enqueue() bool {
	for {
		n := b.queued.Load()
		if n >= int64(b.opt.MaxQueue) {
			return false
		}
		if b.queued.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (b *Bulkhead) refuse(reason error) error {
	return &RejectedError{Name: b.opt.Name, Policy: "bulkhead", Reason: reason}
}

// InFlight returns how many permits are out; never more than MaxConcurrent.
func (b *Bulkhead) InFlight() int { return int(b.inFlight.Load()) }

// Queued returns how many callers wait; never more than MaxQueue.
func (b *Bulkhead) Queued() int { return int(b.queued.Load()) }
