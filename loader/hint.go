package loader

import (
	"context"
	"sync/atomic"
	"time"
)

// hint is what a loader says of the value that it returns. Loaders may say it from several goroutines.
type hint struct {
	ttl     atomic.Int64
	noStore atomic.Bool
}

type hintKey struct{}

// TTL sets the fresh lifetime of the value that the running load will return, instead of the cache's own. It counts from
// the start of the load and is jittered like any other. Below one millisecond it means [NoStore]. The last call wins,
// but none takes a NoStore back. Outside of a load it does nothing.
func TTL(ctx context.Context, d time.Duration) {
	h, ok := ctx.Value(hintKey{}).(*hint)
	if !ok {
		return
	}
	if d < time.Millisecond {
		h.noStore.Store(true)
		return
	}
	h.ttl.Store(int64(d))
}

// NoStore says that the value that the running load will return goes to its callers and is stored nowhere. Outside of a
// load it does nothing.
func NoStore(ctx context.Context) {
	if h, ok := ctx.Value(hintKey{}).(*hint); ok {
		h.noStore.Store(true)
	}
}

// Hints reads what a loader said about its value, once the load has returned.
type Hints struct{ h *hint }

// WithHints returns a context in which [TTL] and [NoStore] work, and the Hints to read them from. Caches call it.
func WithHints(ctx context.Context) (context.Context, Hints) {
	h := &hint{}
	return context.WithValue(ctx, hintKey{}, h), Hints{h}
}

// TTL returns the lifetime that the loader chose; zero if it chose none.
func (h Hints) TTL() time.Duration { return time.Duration(h.h.ttl.Load()) }

// NoStore reports whether the loader asked not to store its value.
func (h Hints) NoStore() bool { return h.h.noStore.Load() }
