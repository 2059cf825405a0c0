package protection

import (
	"sync/atomic"
	"time"
)

const flightCells = 16

// flights counts the calls in flight by the time of their admission, so that a breaker sees those that hang before they
// return. A call counts as overdue once it is older than the limit, at the latest an eighth of the limit later.
type flights struct {
	id       uint64
	limit    int64        // 0: no call is ever overdue, only their number counts
	width    int64        // of a step of time
	nextLook atomic.Int64 // when the breaker counts again
	cells    []flightCell // none without a limit
	older    atomic.Int64 // calls in no cell, or whose cell is another step's by now; for a moment it may be too low
}

type flightCell struct {
	cell
	_ [56]byte // of a cache line
}

func newFlights(limit time.Duration) *flights {
	if limit == 0 {
		f := &flights{}
		f.nextLook.Store(forever)
		return f
	}
	return &flights{limit: int64(limit), width: max(int64(limit)/8, int64(time.Millisecond)), cells: make([]flightCell, flightCells)}
}

// due reports whether it is time to look, to one caller of each step.
func (f *flights) due(now int64) bool {
	next := f.nextLook.Load()
	return now >= next && f.nextLook.CompareAndSwap(next, now+f.width)
}

// enter counts a call that starts now.
func (f *flights) enter(now int64) {
	if f.limit == 0 {
		f.older.Add(1)
		return
	}
	step := uint32(now / f.width) //nolint:gosec // the lower half is what is wanted
	c := &f.cells[now/f.width%flightCells]
	for {
		v := c.v.Load()
		ahead := uint32(v>>countBits) - step
		switch {
		case ahead == 0:
			if c.v.CompareAndSwap(v, v+1) {
				return
			}
		case ahead < laggard && v&countMask > 0:
			f.older.Add(1) // the clock was read long ago
			return
		case c.v.CompareAndSwap(v, uint64(step)<<countBits|1):
			f.older.Add(int64(v & countMask))
			return
		}
	}
}

// leave counts a call off that has started then.
func (f *flights) leave(start int64) {
	if f.limit == 0 {
		f.older.Add(-1)
		return
	}
	step := uint32(start / f.width) //nolint:gosec // as above
	c := &f.cells[start/f.width%flightCells]
	for {
		v := c.v.Load()
		if uint32(v>>countBits) != step || v&countMask == 0 {
			f.older.Add(-1)
			return
		}
		if c.v.CompareAndSwap(v, v-1) {
			return
		}
	}
}

// overdue returns how many calls are out that have started longer ago than the limit.
func (f *flights) overdue(now int64) uint64 {
	if f.limit == 0 {
		return 0
	}
	n := f.older.Load()
	for i := range f.cells {
		v := f.cells[i].v.Load()
		age := int32(uint32(now/f.width) - uint32(v>>countBits)) //nolint:gosec // as above
		end := (now/f.width - int64(age) + 1) * f.width
		if age >= 0 && end <= now-f.limit {
			n += int64(v & countMask)
		}
	}
	return uint64(max(n, 0))
}

// out returns how many calls are out, overdue or not.
func (f *flights) out() int64 {
	n := f.older.Load()
	for i := range f.cells {
		n += int64(f.cells[i].v.Load() & countMask)
	}
	return n
}
