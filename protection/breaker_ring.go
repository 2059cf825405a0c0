package protection

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// buckets is how many steps a window has: it forgets a tenth of itself at a time.
const buckets = 10

// kind is what a ring counts.
type kind int

const (
	success   = kind(Success - 1)
	failure   = kind(Failure - 1)
	timeout   = kind(Timeout - 1)
	cancelled = kind(Ignored - 1)
	rejected  = cancelled + 1
	slow      = cancelled + 2 // judged calls that took long; they are counted as what they came to as well
	kinds     = slow + 1
)

// counts is a sum over a window.
type counts [kinds]uint64

func (c *counts) judged() uint64 { return c[success] + c[failure] + c[timeout] }
func (c *counts) bad() uint64    { return c[failure] + c[timeout] }

// ring counts what happened in the last stretch of time, without locks. Nothing needs to be cleared, since each counter
// says which step of time it counts: one of an earlier lap is skipped by readers and restarted by the next writer.
type ring struct {
	width int64  // of a step, in nanoseconds
	part  uint64 // 2^64/width, to divide by it quickly
	lanes []lane // their sum is what counts
	shift int    // leaves the bits of a hash that tell a lane
}

// lane is the counters of the goroutines whose stacks hash to it, so that threads seldom write to one cache line.
type lane struct {
	cells [buckets][kinds]cell
	_     [512 - buckets*int(kinds)*8]byte
}

// newRing returns an empty ring. A step is at least a millisecond long, so that 32 bits of steps tell laps apart: there
// are 49 days of milliseconds, and 136 years of seconds.
func newRing(window time.Duration, lanes int) *ring {
	n := bits.Len(uint(lanes - 1))
	width := max(int64(window)/buckets, int64(time.Millisecond))
	return &ring{width: width, part: math.MaxUint64 / uint64(width), lanes: make([]lane, 1<<n), shift: 64 - n}
}

// enoughLanes returns one for each processor, within reason: more would only make sums dearer.
func enoughLanes() int { return min(max(runtime.GOMAXPROCS(0), 4), 32) }

// add counts one of the kind.
func (r *ring) add(now int64, k kind) {
	step := r.step(now)
	r.own().cells[step%buckets][k].add(uint32(step), 1) //nolint:gosec // the lower half is what is wanted
}

// step returns now/width. A division would take a third of the time of a whole admission.
func (r *ring) step(now int64) int64 {
	hi, _ := bits.Mul64(uint64(now), r.part) //nolint:gosec // not negative
	step := int64(hi)                        //nolint:gosec // no more than now
	if now-step*r.width >= r.width {         // part was rounded down
		step++
	}
	return step
}

// own returns the lane of the goroutine. Stacks are at least 2 KiB apart, so the bits above tell goroutines apart, and
// the multiplication spreads them.
func (r *ring) own() *lane {
	var here byte
	a := uint64(uintptr(unsafe.Pointer(&here)) >> 11)
	return &r.lanes[a*0x9e3779b97f4a7c15>>r.shift]
}

// sum returns what the window holds at the given time. It may miss what is counted at the same time.
func (r *ring) sum(now int64) (c counts) {
	step := uint32(r.step(now)) //nolint:gosec // as above
	for l := range r.lanes {
		for b := range r.lanes[l].cells {
			for k := range c {
				c[k] += r.lanes[l].cells[b][k].load(step)
			}
		}
	}
	return c
}

// copyTo adds what the window holds at the given time to an empty ring of another width.
func (r *ring) copyTo(to *ring, now int64) {
	for step := max(0, now/r.width-buckets+1); step <= now/r.width; step++ {
		for l := range r.lanes {
			for k := range kinds {
				at := to.step(min(now, (step+1)*r.width-1))
				n := r.lanes[l].cells[step%buckets][k].at(uint32(step))           //nolint:gosec // as above
				to.lanes[l%len(to.lanes)].cells[at%buckets][k].add(uint32(at), n) //nolint:gosec // as above
			}
		}
	}
}

// cell is a counter of one step of time: the step in its upper 32 bits, the count in its lower ones.
type cell struct{ v atomic.Uint64 }

const (
	countBits = 32
	countMask = 1<<countBits - 1
	fullCell  = 1 << 31 // it counts no further, so as not to run into the step
	laggard   = 1 << 20 // a writer is behind by fewer steps; what looks newer by more is older by a lap of 2^32
)

// add counts n in a step: onto the count of the same step, in place of that of an older one, not at all if the cell is
// in use by a newer step already.
func (c *cell) add(step uint32, n uint32) {
	for n > 0 {
		v := c.v.Load()
		ahead := uint32(v>>countBits) - step
		switch {
		case ahead == 0 && v != 0:
			if v&countMask < fullCell {
				c.v.Add(uint64(n))
			}
			return
		case ahead < laggard && v != 0:
			return
		case c.v.CompareAndSwap(v, uint64(step)<<countBits|uint64(n)):
			return
		}
	}
}

// load returns the count if the cell's step is one of the window that ends with now.
func (c *cell) load(now uint32) uint64 {
	v := c.v.Load()
	if now-uint32(v>>countBits) >= buckets {
		return 0
	}
	return v & countMask
}

// at returns the count if it is of the step.
func (c *cell) at(step uint32) uint32 {
	v := c.v.Load()
	if uint32(v>>countBits) != step {
		return 0
	}
	return uint32(v & countMask)
}
