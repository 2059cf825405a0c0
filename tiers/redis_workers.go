package tiers

import (
	"context"
	"sync"
	"time"
)

// workers run calls on goroutines that wait a while for the next one: a fresh goroutine would grow its stack anew in the
// depths of the client each time. There are as many as calls go on their own at once, which the bulkhead bounds.
type workers struct {
	run  func(context.Context, *call)
	idle chan job // taken by whoever waits
	quit chan struct{}
	once sync.Once
}

// job is a call and the context for its values, which do not end with the caller's.
type job struct {
	ctx context.Context //nolint:containedctx // it only passes through a channel
	c   *call
}

// idleFor is how long a worker waits for work before it ends.
const idleFor = time.Second

// start runs c in the background.
func (w *workers) start(ctx context.Context, c *call) {
	j := job{context.WithoutCancel(ctx), c}
	select {
	case w.idle <- j:
	default:
		go w.work(j)
	}
}

func (w *workers) work(j job) {
	t := time.NewTimer(idleFor)
	defer t.Stop()
	for {
		w.run(j.ctx, j.c)
		t.Reset(idleFor)
		select {
		case j = <-w.idle:
		case <-t.C:
			return
		case <-w.quit:
			return
		}
	}
}

// stop ends the workers that wait. Those that run end after their call.
func (w *workers) stop() { w.once.Do(func() { close(w.quit) }) }
