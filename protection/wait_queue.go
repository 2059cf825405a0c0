package protection

import (
	"context"
	"time"
)

// waiter is one caller in a queue. The links, and err until decided is closed, belong to the owner's lock.
type waiter struct {
	prev, next *waiter

	ctx     context.Context //nolint:containedctx // of the call that waits: whoever serves the queue passes over the dead
	weight  uint64
	since   time.Duration
	decided chan struct{} // closed when the wait is over
	err     error         // after that: why the caller was not admitted, nil if it was
}

// waitQueue is a queue of callers, under the lock of whoever has it. Any waiter can leave it in constant time.
//
// The order is that of arrival until the queue stands, and newest first while it does. It stands while its oldest waiter
// has waited for half of maxWait or longer: callers are then being turned over by a queue that no longer drains, those at
// the head will give up before or soon after they are served, and only the youngest can still be served in good time.
// This is adaptive LIFO (B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015) with the criterion of controlled delay: the
// time spent in the queue and not its length (K. Nichols, V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012).
type waitQueue struct {
	born           time.Time
	maxWait        time.Duration
	oldest, newest *waiter
	length         int
}

func newWaitQueue(maxWait time.Duration) waitQueue {
	return waitQueue{born: time.Now(), maxWait: maxWait}
}

// now is monotonic time since the queue was made.
func (q *waitQueue) now() time.Duration { return time.Since(q.born) }

func (q *waitQueue) push(w *waiter) {
	w.since, w.decided = q.now(), make(chan struct{})
	w.prev = q.newest
	if q.newest == nil {
		q.oldest = w
	} else {
		q.newest.next = w
	}
	q.newest = w
	q.length++
}

// decide takes w out of the queue and ends its wait. A nil error admits it.
func (q *waitQueue) decide(w *waiter, err error) {
	if w.prev == nil {
		q.oldest = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.newest = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.length--
	w.err = err
	close(w.decided)
}

// undecided reports whether w still waits.
func (w *waiter) undecided() bool {
	select {
	case <-w.decided:
		return false
	default:
		return true
	}
}

// first returns whoever is to be served next, nil if nobody waits.
func (q *waitQueue) first(now time.Duration) *waiter {
	if q.oldest != nil && now-q.oldest.since >= q.maxWait/2 {
		return q.newest
	}
	return q.oldest
}

// late reports whether w has waited for too long to be served.
func (q *waitQueue) late(w *waiter, now time.Duration) bool { return now-w.since >= q.maxWait }

// room returns the longest time that may pass until the oldest waiter has left a full queue, one way or the other.
func (q *waitQueue) room(now time.Duration) time.Duration {
	if q.oldest == nil {
		return 0
	}
	return max(0, q.oldest.since+q.maxWait-now)
}
