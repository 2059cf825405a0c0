package tiers

import (
	"context"
	"sync"
	"sync/atomic"
)

// gate counts the calls inside and can be closed.
type gate struct {
	state atomic.Int64 // twice the number inside, and one more when closed
	once  sync.Once
	empty chan struct{} // closed when the gate is and nobody is inside any more
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

// enter reports whether the gate is open, and then counts the caller in.
func (g *gate) enter() bool {
	if g.state.Add(2)&1 == 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-2) == 1 {
		g.once.Do(func() { close(g.empty) }) // who tries to enter later leaves at once, and may be the last one again
	}
}

func (g *gate) isClosed() bool { return g.state.Load()&1 != 0 }

func (g *gate) inside() int { return int(g.state.Load() >> 1) }

// close closes the gate and waits until nobody is inside, or returns ctx's error.
func (g *gate) close(ctx context.Context) error {
	if g.state.Or(1) == 0 {
		g.once.Do(func() { close(g.empty) })
	}
	select {
	case <-g.empty:
		return nil
	default: // if nobody is inside, it does not matter whether ctx has ended
	}
	select {
	case <-g.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
