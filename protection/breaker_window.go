package protection

import "time"

// buckets is how many steps a window has: it forgets a tenth of itself at a time.
const buckets = 10

// window counts the calls of the last stretch of time, in a ring of buckets. A bucket says which step of time it counts,
// so that nothing needs to be cleared: a bucket of another lap is skipped by readers and restarted by the next writer.
// Its user locks.
type window struct {
	width time.Duration // of one step
	ring  [buckets]bucket
}

type bucket struct {
	step  int64
	total uint64
	bad   uint64 // failures and timeouts, part of total
}

func newWindow(length time.Duration) window {
	return window{width: max(1, length/buckets)}
}

// add counts one call that ended at the given time.
func (w *window) add(now time.Duration, bad bool) {
	step := int64(now / w.width)
	b := &w.ring[step%buckets]
	if b.step != step {
		*b = bucket{step: step}
	}
	b.total++
	if bad {
		b.bad++
	}
}

// sum returns how many calls the window holds at the given time, and how many of them are bad.
func (w *window) sum(now time.Duration) (total, bad uint64) {
	step := int64(now / w.width)
	for i := range w.ring {
		if b := &w.ring[i]; b.step > step-buckets && b.step <= step {
			total += b.total
			bad += b.bad
		}
	}
	return total, bad
}
