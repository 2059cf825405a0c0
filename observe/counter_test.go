package observe

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/snowshed-go/snowshed/internal/assert"
)

func TestCounterIsExact(t *testing.T) {
	t.Parallel()
	var c Counter
	const goroutines, each = 64, 5_000
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				c.Add()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, c.Load(), goroutines*each)
}

// A reader sees every addition that ended before it read, and none that nobody made.
func TestCounterReadsWhileOthersCount(t *testing.T) {
	t.Parallel()
	var c Counter
	const goroutines, each = 4, 20_000
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				c.Add()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	last := uint64(0)
	for {
		n := c.Load()
		assert.True(t, n >= last && n <= goroutines*each, n, " after ", last)
		last = n
		select {
		case <-done:
			assert.Equal(t, c.Load(), goroutines*each)
			return
		default:
		}
	}
}

func TestCounterSamplesOnOneGoroutine(t *testing.T) {
	t.Parallel()
	var c Counter
	const oneIn, calls = 64, 64_000
	sampled := 0
	for range calls {
		if c.Add()%oneIn == 0 {
			sampled++
		}
	}
	assert.Equal(t, c.Load(), calls)
	assert.True(t, sampled >= calls/oneIn-stripes && sampled <= calls/oneIn, sampled)
}

func TestCounterAllocatesNothing(t *testing.T) {
	var c Counter
	assert.Equal(t, testing.AllocsPerRun(100, func() { c.Add() }), 0)
	assert.Equal(t, testing.AllocsPerRun(100, func() { c.Load() }), 0)
}

// Goroutines that live at the same time spread over all cells, or the cells would be there for nothing.
func TestCounterUsesAllItsCells(t *testing.T) {
	t.Parallel()
	var c Counter
	const goroutines = 4096
	var ready, wg sync.WaitGroup
	ready.Add(goroutines)
	for range goroutines {
		wg.Go(func() {
			ready.Done()
			ready.Wait() // all of them have a stack at this moment
			c.Add()
		})
	}
	wg.Wait()
	for i := range c.cells {
		assert.True(t, c.cells[i].n.Load() > 0, "cell ", i, " is never used")
		assert.True(t, c.cells[i].n.Load() < goroutines/4, "cell ", i, " takes too much")
	}
}

func TestCellsDoNotShareCacheLines(t *testing.T) {
	t.Parallel()
	assert.Equal(t, unsafe.Sizeof(cell{}), 128)
}
