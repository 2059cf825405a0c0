package cache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowshed-go/snowshed/internal/contain"
	"github.com/snowshed-go/snowshed/lock"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/tiers"
)

// Refresh loads key anew, whatever is cached, and stores the value. It joins a load of the key that runs already. Errors
// are as for [Cache.Get]; the old value then stays as it was, and no stale value stands in. A key that rests after a
// failure is tried all the same.
func (c *Cache[K, V]) Refresh(ctx context.Context, key K) (V, error) {
	var none V
	if c.closed.Load() {
		return none, ErrClosed
	}
	e, err := c.renew(ctx, key, wish{load: true})
	switch {
	case err != nil:
		return none, err
	case e.NotFound:
		return none, ErrNotFound
	}
	return c.copied(e.Value), nil
}

// renew waits for a flight that grants the wish.
func (c *Cache[K, V]) renew(ctx context.Context, key K, w wish) (*tiers.Entry[K, V], error) {
	for {
		t, err := c.board(ctx, key, w)
		if err != nil {
			return nil, err
		}
		got, led, err := t.Wait(ctx, nil)
		switch {
		case err != nil && w.load && !led && errors.As(err, new(*BackoffError)): // of a Get, which takes no for an answer
		case err != nil:
			return nil, c.translated(ctx, err)
		case led || grants(w, got):
			return got.entry, nil
		}
	}
}

// refreshBehind has e replaced by a newer value, soon and by somebody else. The refresh does not end with ctx.
func (c *Cache[K, V]) refreshBehind(ctx context.Context, e *tiers.Entry[K, V]) {
	text, now := c.opts.Key(e.Key), c.clock.Now()
	if c.refresh.paused(now) || c.rests.rest(text, now) {
		return
	}
	ctx = lock.Detach(ctx)
	taken := c.refresh.offer(text, func() {
		c.counts.refreshes.Add(1)
		_, err := c.renew(ctx, e.Key, wish{not: e.Number, since: e.Start})
		if errors.Is(err, protection.ErrRejected) {
			c.refresh.pause(c.clock.Now(), err)
		}
	})
	if !taken {
		c.counts.dropped.Add(1)
		if c.refresh.overflows() {
			c.emit(observe.RefreshDropped, observe.Warn, "the queue of refreshes is full", nil, 0)
		}
	}
}

// refreshers is a bounded pool for refreshes behind answers: few workers, which end when there is nothing to do, a
// bounded queue, one job for a key at a time. A job that finds the queue full is dropped; a later read asks again.
type refreshers struct {
	most int

	mu      sync.Mutex
	pending map[string]struct{} // queued or running
	queue   []func()
	workers int
	closed  bool
	full    bool // told since the queue was last empty
	wg      sync.WaitGroup

	resume atomic.Int64 // no refresh before it
}

// queuePerWorker is how many jobs may wait for each worker.
const queuePerWorker = 64

func newRefreshers(most int) *refreshers {
	return &refreshers{most: most, pending: make(map[string]struct{})}
}

// offer queues job for key and reports false if it was dropped. A key that has a job keeps it.
func (r *refreshers) offer(key string, job func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.pending[key]; ok || r.closed {
		return true
	}
	if len(r.queue) >= r.most*queuePerWorker {
		return false
	}
	r.pending[key] = struct{}{}
	r.queue = append(r.queue, func() {
		defer func() {
			r.mu.Lock()
			delete(r.pending, key)
			r.mu.Unlock()
		}()
		job()
	})
	if r.workers < r.most {
		r.workers++
		r.wg.Add(1)
		go r.work()
	}
	return true
}

// overflows reports true once for each time that the queue is full before it is empty again.
func (r *refreshers) overflows() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.full
	r.full = true
	return first
}

func (r *refreshers) work() {
	defer r.wg.Done()
	for {
		r.mu.Lock()
		if len(r.queue) == 0 || r.closed {
			r.workers--
			r.full = false
			r.mu.Unlock()
			return
		}
		job := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.mu.Unlock()
		job()
	}
}

// paused reports whether refreshes are to be left alone at now.
func (r *refreshers) paused(now int64) bool { return now < r.resume.Load() }

// pause leaves refreshes alone for a moment after the guard refused one: answers that need a load come first.
func (r *refreshers) pause(now int64, err error) {
	const least, most = 5 * time.Millisecond, 100 * time.Millisecond
	rest := least
	if rejected := (*protection.RejectedError)(nil); errors.As(err, &rejected) {
		rest = min(max(least, rejected.RetryAfter), most)
	}
	r.resume.Store(now + int64(rest))
}

// close drops what is queued and waits for what runs, until ctx ends.
func (r *refreshers) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.queue = nil
	r.mu.Unlock()
	return contain.Wait(ctx, r.wg.Wait)
}
