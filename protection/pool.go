package protection

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/internal/contain"
)

// Pool is a bulkhead of its own goroutines: a fixed number of workers and a bounded queue for bursts (M. Nygard, "Release
// It!"; the thread pool isolation of Hystrix). Against a [Bulkhead] it costs a switch of goroutines per task, and frees
// the caller of work that ignores its ctx. The owner must Close it. Safe for concurrent use.
//
// A caller never waits longer than MaxWait for a worker and Timeout for its task, nor past the end of its ctx; then the
// task's ctx is cancelled. A task that has not started by then never does. One that runs keeps its worker until it really
// ends: until then it is a zombie, and the pool has one worker less. Abandoning the worker as well would let work that
// hangs pile up without bound.
//
// The order of the queue is that of [Bulkhead]: newest first while it stands.
type Pool struct {
	opt     PoolOptions
	drained chan struct{} // closed when a closed pool has no goroutine left

	mu      sync.Mutex
	work    sync.Cond // of mu: something for a worker
	queue   waitQueue
	tasks   map[*waiter]*task // those in the queue
	running int
	alive   int // workers
	closed  bool

	zombies zombies
	refused uint64
	events  mailbox
}

// PanicError is the error of a task that panicked or called runtime.Goexit, with the value and the stack.
type PanicError = contain.PanicError

// task is one call of a pool.
type task struct {
	waiter
	fn func(context.Context) error

	run    context.Context //nolint:containedctx // set, under the lock, by the worker that takes the task
	cancel context.CancelFunc

	ended     chan struct{}
	result    error // once ended
	abandoned bool  // its caller left while it ran
}

// poolKey marks the ctx of what runs in a pool.
type poolKey struct{ p *Pool }

// NewPool starts the workers, or returns an error that names the option that cannot be.
func NewPool(o PoolOptions) (*Pool, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{
		opt: o, drained: make(chan struct{}), alive: o.Workers,
		queue: newWaitQueue(o.MaxWait), tasks: map[*waiter]*task{},
	}
	p.work.L = &p.mu
	for range o.Workers {
		go p.worker()
	}
	return p, nil
}

// Do runs fn on a worker and returns its error. It returns a [*RejectedError] if fn never started: with [ErrFull] when the
// queue is full, [ErrWaitTimeout] after MaxWait, [ErrNested] when ctx is that of a task of this pool. It returns a
// [*TimeoutError] after Timeout, also if fn came back just then, and ctx's error when ctx ends; fn may still run. A panic
// or a runtime.Goexit in fn is a [*PanicError]: raised here it would lack the stack that matters, and nobody would see
// that of a zombie. After Close it returns [ErrClosed].
func (p *Pool) Do(ctx context.Context, fn func(context.Context) error) error {
	t := &task{waiter: waiter{ctx: ctx}, fn: fn, ended: make(chan struct{})}
	if err := p.submit(t); err != nil {
		return err
	}
	if err := p.wait(t); err != nil {
		return err
	}
	select {
	case <-t.ended:
		return t.result
	case <-t.run.Done():
		return p.abandon(t)
	}
}

// PoolValue is [Pool.Do] for a function that returns a value. Its value comes with its error; any other error comes with
// the zero value.
func PoolValue[T any](ctx context.Context, p *Pool, fn func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answer := make(chan result, 1) // not a shared variable: the task may outlive the call
	err := p.Do(ctx, func(ctx context.Context) error {
		v, err := fn(ctx)
		answer <- result{v, err}
		return err
	})
	select {
	case r := <-answer:
		if r.err == err { //nolint:errorlint // the very same: otherwise the caller was freed by another
			return r.value, err
		}
	default:
	}
	var zero T
	return zero, err
}

// submit puts t into the queue.
func (p *Pool) submit(t *task) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	nested := t.ctx.Value(poolKey{p}) != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case nested:
		return p.refuse(ErrNested, 0)
	case p.running+p.queue.length >= p.opt.Workers+p.opt.MaxQueue:
		return p.refuse(ErrFull, p.queue.room(p.queue.now()))
	}
	p.queue.push(&t.waiter)
	p.tasks[&t.waiter] = t
	p.work.Signal()
	return nil
}

// wait returns nil once a worker has taken t, and otherwise the reason why none ever will.
func (p *Pool) wait(t *task) error {
	timer := time.NewTimer(p.opt.MaxWait)
	defer timer.Stop()
	select {
	case <-t.decided:
	case <-t.ctx.Done():
		p.leave(t, t.ctx.Err())
	case <-timer.C:
		p.leave(t, nil)
	}
	return t.err
}

// leave takes t out of the queue if no worker has taken it. A nil error is that of MaxWait.
func (p *Pool) leave(t *task, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.undecided() {
		return
	}
	if err == nil {
		err = p.refuse(ErrWaitTimeout, 0)
	}
	p.decide(t, err)
}

// decide ends the wait of t, under the lock.
func (p *Pool) decide(t *task, err error) {
	delete(p.tasks, &t.waiter)
	p.queue.decide(&t.waiter, err)
}

// abandon lets the caller of t go although t runs.
func (p *Pool) abandon(t *task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-t.ended:
		return t.result
	default:
	}
	t.abandoned = true
	p.zombieBegins()
	if err := t.ctx.Err(); err != nil {
		return err
	}
	return context.Cause(t.run)
}

func (p *Pool) refuse(reason error, retryAfter time.Duration) error {
	p.refused++
	return &RejectedError{Name: p.opt.Name, Policy: "pool", Reason: reason, RetryAfter: retryAfter}
}

// Close refuses new tasks and those that wait, with [ErrClosed], and waits until the running ones have ended, whose ctx it
// leaves alone, or ctx ends; then it returns an error that wraps ctx's, and the workers go as their tasks end. It may be
// called again, to wait again.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for _, t := range p.tasks {
			p.decide(t, ErrClosed)
		}
		p.work.Broadcast()
	}
	p.mu.Unlock()
	select {
	case <-p.drained:
		return nil
	default:
	}
	select {
	case <-p.drained:
		return nil
	case <-ctx.Done():
		s := p.Stats()
		return fmt.Errorf("protection: close of pool %q: %d tasks still run, %d of them zombies: %w", p.opt.Name, s.Running, s.Zombies, ctx.Err())
	}
}

// PoolStats is what a [Pool] is doing at one instant.
type PoolStats struct {
	Workers  int    // all of them
	Running  int    // workers that are busy, zombies included
	Queued   int    // tasks that wait
	Zombies  int    // tasks whose callers have left while they run: the pool has that many workers less
	Rejected uint64 // tasks refused since the beginning
}

// Stats returns what the pool is doing.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{
		Workers: p.opt.Workers, Running: p.running, Queued: p.queue.length,
		Zombies: p.zombies.now, Rejected: p.refused,
	}
}

// Zombies returns how many tasks run although their callers have left.
func (p *Pool) Zombies() int { return p.Stats().Zombies }
