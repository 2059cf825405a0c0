package cache

import (
	"context"
	"sync"
)

// writes knows the keys whose values are on their way to Redis. A value that an invalidation has overtaken on that way
// may land after the deletion and be there for a moment, until the flight that wrote it deletes it too. So an invalidation
// waits for the writes of its keys, and a flight does not read what another is writing.
type writes struct {
	mu      sync.Mutex
	pending map[string]*write
}

// write is the writes of one key.
type write struct {
	n    int
	done chan struct{} // closed when there is none any more
}

func newWrites() *writes { return &writes{pending: make(map[string]*write)} }

// begin counts a write of key in, until end.
func (ws *writes) begin(key string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.pending[key]
	if w == nil {
		w = &write{done: make(chan struct{})}
		ws.pending[key] = w
	}
	w.n++
}

func (ws *writes) end(key string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.pending[key]
	if w.n--; w.n == 0 {
		delete(ws.pending, key)
		close(w.done)
	}
}

// running reports whether key is being written.
func (ws *writes) running(key string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.pending[key] != nil
}

// wait waits until no write of key that runs now is left, or ctx ends.
func (ws *writes) wait(ctx context.Context, key string) error {
	ws.mu.Lock()
	w := ws.pending[key]
	ws.mu.Unlock()
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
