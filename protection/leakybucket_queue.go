package protection

import (
	"math"
	"math/bits"
	"time"
)

// turns is a queue of callers that any of them can leave.
type turns struct {
	first, last *turn
	n           int
}

type turn struct {
	before, behind *turn
	wake           chan struct{} // says that it should look again
}

func (q *turns) push(t *turn) {
	t.before = q.last
	if q.last == nil {
		q.first = t
	} else {
		q.last.behind = t
	}
	q.last = t
	q.n++
}

// remove takes out t, which must be in the queue.
func (q *turns) remove(t *turn) {
	if t.before == nil {
		q.first = t.behind
	} else {
		t.before.behind = t.behind
	}
	if t.behind == nil {
		q.last = t.before
	} else {
		t.behind.before = t.before
	}
	q.n--
}

func (q *turns) wakeFirst() {
	if q.first == nil {
		return
	}
	select {
	case q.first.wake <- struct{}{}:
	default: // it has not yet looked since the last time
	}
}

// moment is a time, or a length of time, finer than a nanosecond, so that the gap of no rate is rounded.
type moment struct {
	ns   int64
	frac uint32 // 2^-32 ns
}

// farOff is a gap that does not end, that of the rate 0. Any other lasts 36 years at most.
const (
	farOff  = math.MaxInt64 / 2
	longest = 1 << 60
)

// gapOf returns the time from one turn to the next.
func gapOf(perSecond float64) moment {
	if perSecond == 0 {
		return moment{ns: farOff}
	}
	whole, frac := math.Modf(min(1e9/perSecond, longest))
	return moment{ns: int64(whole), frac: uint32(frac * (1 << 32))}
}

// plus returns m after n gaps, n ≥ 0.
func (m moment) plus(gap moment, n int) moment {
	hi, lo := bits.Mul64(uint64(gap.ns), uint64(n)) //nolint:gosec // not negative
	fracs := uint64(gap.frac) * uint64(n)           //nolint:gosec // n ≤ MaxInt32
	fracs += uint64(m.frac)
	whole, carry := bits.Add64(lo, fracs>>32, 0)
	if hi+carry > 0 || whole >= farOff {
		return moment{ns: farOff}
	}
	return moment{ns: m.ns + int64(whole), frac: uint32(fracs)} //nolint:gosec // the part below a nanosecond
}

// reached reports whether it is m, at a whole nanosecond.
func (m moment) reached(now int64) bool { return m.ns < now || m.ns == now && m.frac == 0 }

// after returns the time from now to m, rounded up; 0 if it is past.
func (m moment) after(now int64) time.Duration {
	if m.ns >= farOff {
		return never
	}
	d := m.ns - now
	if m.frac > 0 {
		d++
	}
	return time.Duration(max(d, 0))
}
