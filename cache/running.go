package cache

import (
	"context"
	"sync"
)

// running counts the loaders that run. It can be closed while they come and go, which a sync.WaitGroup cannot.
type running struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when the last one has left after close
}

func newRunning() *running { return &running{idle: make(chan struct{})} }

// enter counts a loader in, and reports false after close.
func (r *running) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.n++
	return true
}

func (r *running) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n--
	if r.closed && r.n == 0 {
		close(r.idle)
	}
}

// close lets no more in and waits until the last one has left, or ctx ends. It may be called again.
func (r *running) close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		if r.n == 0 {
			close(r.idle)
		}
	}
	r.mu.Unlock()
	select {
	case <-r.idle:
		return nil
	default:
	}
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
