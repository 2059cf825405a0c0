// Package clock gives monotonic time cheaply: a coarse reading for the hot path and an exact one for decisions.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Tick is how often the coarse reading is refreshed. While the scheduler keeps up, it is late by at most this much.
const Tick = 5 * time.Millisecond

// Clock counts nanoseconds since it was started, from 1 up, on the monotonic clock: steps of the wall clock do not
// reach it. It is safe for concurrent use.
type Clock struct {
	coarse atomic.Int64
	start  time.Time
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
}

// Start returns a running clock, whose goroutine lives until Stop.
func Start() *Clock {
	c := &Clock{start: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	c.coarse.Store(1)
	go c.run()
	return c
}

func (c *Clock) run() {
	defer close(c.done)
	t := time.NewTicker(Tick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.Now()
		case <-c.stop:
			return
		}
	}
}

// Stop ends the clock's goroutine and waits for it. The coarse reading then moves only with calls of Now.
func (c *Clock) Stop() {
	c.once.Do(func() { close(c.stop) })
	<-c.done
}

// Coarse returns the latest refreshed reading: one atomic load.
func (c *Clock) Coarse() int64 { return c.coarse.Load() }

// Now returns the exact reading, and refreshes the coarse one with it.
func (c *Clock) Now() int64 {
	now := int64(time.Since(c.start)) + 1
	for {
		seen := c.coarse.Load()
		if seen >= now || c.coarse.CompareAndSwap(seen, now) {
			return now
		}
	}
}
