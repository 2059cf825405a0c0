// Package interleave measures several contestants on a machine that is busy with other things: each round gives every one
// a turn of a fraction of a millisecond, and what counts is the median of its turns. So whatever slows the machine for
// longer than that slows all of them alike, and what interrupts a turn spoils that turn only.
package interleave

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// Contestant is something to be measured.
type Contestant struct {
	Name string
	// New makes a fresh one. work does n operations on it, on as many goroutines at once as the round has; done, which may
	// be nil, takes it down.
	New func() (work func(n int), done func())
}

// Options say how long to measure.
type Options struct {
	Rounds  int           // turns of each contestant
	Turn    time.Duration // length of a turn
	Threads int           // goroutines that work at once
}

// Result is what one contestant came to.
type Result struct {
	Name   string
	NS     float64 // median time of one operation; on several goroutines, of processor time
	Allocs float64 // heap allocations of one operation
}

// Run measures the contestants, in their order.
func Run(contestants []Contestant, o Options) []Result {
	type player struct {
		work  func(int)
		n     int
		turns []float64
	}
	players := make([]player, len(contestants))
	results := make([]Result, len(contestants))
	for i, c := range contestants {
		work, done := c.New()
		if done != nil {
			defer done()
		}
		players[i] = player{work: work, n: calibrate(work, o.Turn)}
		results[i] = Result{Name: c.Name, Allocs: allocs(work)}
	}
	for range o.Rounds {
		for i := range players {
			p := &players[i]
			p.turns = append(p.turns, turn(p.work, p.n, o.Threads))
		}
	}
	for i := range players {
		results[i].NS = median(players[i].turns)
	}
	return results
}

// calibrate finds how many operations fill a turn on one goroutine.
func calibrate(work func(int), length time.Duration) int {
	best := time.Duration(1 << 62)
	const n = 64
	work(n)
	for range 20 { // the quickest: anything else was disturbed
		start := time.Now()
		work(n)
		best = min(best, time.Since(start))
	}
	return max(1, int(int64(length)*n/max(1, int64(best))))
}

// turn returns the time of one operation: as long as it takes on one goroutine, and on several the processor time of all of
// them, so that neither waiting for a processor nor other processes count, but contention does.
func turn(work func(int), n, threads int) float64 {
	if threads == 1 {
		start := time.Now()
		work(n)
		return float64(time.Since(start)) / float64(n)
	}
	each := max(1, n*min(threads, runtime.GOMAXPROCS(0))/threads)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range threads {
		wg.Go(func() {
			<-start
			work(each)
		})
	}
	before := cpu()
	close(start)
	wg.Wait()
	return float64(cpu()-before) / float64(each*threads)
}

// allocs counts, as testing.AllocsPerRun does, without its package.
func allocs(work func(int)) float64 {
	const n = 200
	least := ^uint64(0)
	var before, after runtime.MemStats
	for range 3 { // others may allocate meanwhile
		runtime.ReadMemStats(&before)
		work(n)
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return float64(least / n)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
