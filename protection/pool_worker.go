package protection

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/snowshed-go/snowshed/observe"
)

// errGoexit is the value of a [PanicError] for runtime.Goexit, which has none of its own.
var errGoexit = errors.New("runtime.Goexit was called")

// worker runs tasks until the pool is closed. A task that ends its goroutine leaves it to a new one.
func (p *Pool) worker() {
	returned := false
	defer func() {
		if !returned {
			go p.worker()
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gone()
	}()
	for t := p.take(); t != nil; t = p.take() {
		p.execute(t)
	}
	returned = true
}

// gone notes the end of a worker, under the lock.
func (p *Pool) gone() {
	p.alive--
	if p.alive == 0 {
		close(p.drained)
	}
}

// take waits for a task that is still worth running, and starts its time. It returns nil when the pool is closed.
func (p *Pool) take() *task {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := p.queue.now()
		w := p.queue.first(now)
		if w == nil {
			if p.closed {
				return nil
			}
			p.work.Wait()
			continue
		}
		t := p.tasks[w]
		switch {
		case t.ctx.Err() != nil:
			p.decide(t, t.ctx.Err())
		case p.queue.late(w, now):
			p.decide(t, p.refuse(ErrWaitTimeout, 0))
		default:
			p.start(t)
			return t
		}
	}
}

// start makes the ctx of t and tells its caller, under the lock.
func (p *Pool) start(t *task) {
	ctx := context.WithValue(t.ctx, poolKey{p}, true)
	if p.opt.Timeout > 0 {
		t.run, t.cancel = context.WithTimeoutCause(ctx, p.opt.Timeout, &TimeoutError{Name: p.opt.Name, After: p.opt.Timeout})
	} else {
		t.run, t.cancel = context.WithCancel(ctx)
	}
	p.running++
	p.decide(t, nil)
}

// execute runs t. Whatever its function does, t ends.
func (p *Pool) execute(t *task) {
	returned := false
	defer func() {
		if !returned {
			v := recover()
			if v == nil {
				v = errGoexit
			}
			t.result = &PanicError{Value: v, Stack: debug.Stack()}
		}
		p.end(t)
	}()
	t.result = t.fn(t.run)
	returned = true
	if own, ok := errors.AsType[*TimeoutError](context.Cause(t.run)); ok && t.ctx.Err() == nil {
		t.result = own // late is late, even with a result: the outcome does not hang on who of the two wakes first
	}
}

// end frees the worker.
func (p *Pool) end(t *task) {
	defer t.cancel() // after the end is known: its caller takes a ctx that ends for the timeout
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if t.abandoned {
		p.zombieEnds()
		if failed, ok := t.result.(*PanicError); ok { //nolint:errorlint // made here, never wrapped
			p.events.put(p.opt.Observer, observe.Event{
				Kind: observe.Panicked, Level: observe.Critical, Source: p.opt.Name, Err: failed,
				Message: "a task panicked after its caller had left",
			})
		}
	}
	close(t.ended)
}
