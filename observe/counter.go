package observe

import (
	"sync/atomic"
	"unsafe"
)

// stripes is how many cells a Counter has: enough that goroutines on different threads seldom share one.
const (
	stripeBits = 5
	stripes    = 1 << stripeBits
)

// Counter counts events from many goroutines without making them wait for each other's cache line: each adds to one
// of several cells, chosen by the address of its stack. The zero value is ready; a Counter must not be copied.
type Counter struct {
	cells [stripes]cell
}

type cell struct {
	n atomic.Uint64
	_ [120]byte // two cache lines, since the prefetcher of common processors fetches lines in pairs
}

// Add adds one and returns the new count of the cell that it was added to, which is good for sampling: it passes
// every multiple of n once in n calls from the same goroutine.
func (c *Counter) Add() uint64 {
	var here byte
	// Stacks are at least 2 KiB apart, so the bits above tell goroutines apart. The multiplication spreads them.
	a := uint64(uintptr(unsafe.Pointer(&here)) >> 11)
	return c.cells[(a*0x9e3779b97f4a7c15)>>(64-stripeBits)].n.Add(1)
}

// Load returns the sum of all cells. It may miss additions that run at the same time, never finished ones.
func (c *Counter) Load() uint64 {
	var sum uint64
	for i := range c.cells {
		sum += c.cells[i].n.Load()
	}
	return sum
}
