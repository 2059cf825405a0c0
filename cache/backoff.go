package cache

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/protection"
)

// maxRests bounds how many keys rest at once. Beyond it failed keys do not rest, which the guard bears.
const maxRests = 1 << 16

// rests remembers the keys whose load failed, and until when they rest. Marks do not outlive an outage: they end when
// the guard's breaker closes again.
type rests struct {
	first, longest time.Duration
	recoveries     func() uint64

	mu    sync.Mutex
	marks map[string]mark
}

type mark struct {
	until      int64
	gone       int64 // when even the count of failures is forgotten
	failures   int
	recoveries uint64
	err        error
}

func newRests(first, longest time.Duration, recoveries func() uint64) *rests {
	return &rests{first: first, longest: longest, recoveries: recoveries, marks: make(map[string]mark)}
}

// recoveries returns a function that counts how often the guard has recovered, if the guard can tell.
func recoveries(guard protection.Policy) func() uint64 {
	if g, ok := guard.(interface{ Recoveries() uint64 }); ok {
		return g.Recoveries
	}
	return func() uint64 { return 0 }
}

// check returns a *BackoffError if key rests at now.
func (r *rests) check(key string, now int64) error {
	r.mu.Lock()
	m, ok := r.marks[key]
	r.mu.Unlock()
	if !ok || now >= m.until || m.recoveries != r.recoveries() {
		return nil
	}
	return &BackoffError{RetryAfter: time.Duration(m.until - now), Err: m.err}
}

// rest reports whether key rests at now.
func (r *rests) rest(key string, now int64) bool { return r.check(key, now) != nil }

// fail lets key rest: first, doubled with each failure in a row, up to longest, of which a random part between a half
// and all is taken.
func (r *rests) fail(key string, err error, now int64) {
	if r.first == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.marks[key]
	r.sweep(now)
	if !ok && len(r.marks) >= maxRests {
		return
	}
	if now >= m.gone || m.recoveries != r.recoveries() {
		m.failures = 0
	}
	rest := r.longest
	if m.failures < 32 {
		rest = min(r.first<<m.failures, r.longest)
	}
	if rest <= 0 {
		rest = r.longest
	}
	rest -= time.Duration(rand.Int64N(int64(rest)/2 + 1))
	m.failures++
	m.until, m.gone = now+int64(rest), now+int64(rest)+int64(r.longest)
	m.err, m.recoveries = err, r.recoveries()
	r.marks[key] = m
}

// clear ends the rest of key.
func (r *rests) clear(key string) {
	r.mu.Lock()
	delete(r.marks, key)
	r.mu.Unlock()
}

// sweep looks at a few marks, anywhere, and deletes those that mean nothing any more. It never looks at all of them: in
// an outage every reader waits behind it.
func (r *rests) sweep(now int64) {
	looks := 8
	for k, m := range r.marks {
		if now >= m.gone {
			delete(r.marks, k)
		}
		if looks--; looks == 0 {
			return
		}
	}
}
