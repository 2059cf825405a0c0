package cache

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/snowshed-go/snowshed/tiers"
)

// forever is a time that never comes.
const forever = math.MaxInt64

// jittered draws from [d·(1−Jitter), d]: never above what was promised.
func (c *Cache[K, V]) jittered(d time.Duration) time.Duration {
	return max(shortest, d-time.Duration(float64(d)*c.opts.Jitter*rand.Float64()))
}

// live sets the times of an entry from its Start, its fresh life and the time now at which this copy is made.
func (c *Cache[K, V]) live(e *tiers.Entry[K, V], ttl time.Duration, now int64) {
	e.Expires = e.Start + int64(ttl)
	e.CheckBy = forever
	if c.remote != nil && ttl > c.opts.LocalTTL {
		e.CheckBy = now + int64(c.jittered(c.opts.LocalTTL))
	}
	e.EarlyFrom, e.StaleUntil, e.ErrorUntil = e.Expires, e.Expires, e.Expires
	if e.NotFound {
		return // neither window, nor worth a refresh
	}
	e.StaleUntil += int64(c.opts.StaleWhileRevalidate)
	e.ErrorUntil += int64(max(c.opts.StaleIfError, c.opts.StaleWhileRevalidate))
	if c.opts.Beta > 0 {
		// XFetch draws −ln U, which is above 37 once in 10^16 draws: before that there is nothing to draw for. And a
		// value is never refreshed in the first half of its life, however long its load took.
		const least = 37
		early := float64(e.LoadTime) * c.opts.Beta * least
		e.EarlyFrom = max(e.Start+int64(ttl)/2, e.Expires-int64(min(early, float64(ttl))))
	}
}

// dueEarly draws whether this read is the one that refreshes e before it expires (XFetch).
func (c *Cache[K, V]) dueEarly(e *tiers.Entry[K, V], now int64) bool {
	if c.opts.Beta == 0 || now < e.EarlyFrom || e.NotFound {
		return false
	}
	u := 1 - rand.Float64() // in (0,1]
	return float64(now)-float64(e.LoadTime)*c.opts.Beta*math.Log(u) >= float64(e.Expires)
}

// fresh reports whether e may be answered at now as it is.
func fresh[K comparable, V any](e *tiers.Entry[K, V], now int64) bool {
	return now < min(e.Expires, e.CheckBy)
}

// revalidating reports whether e may be answered at now while a refresh runs behind.
func revalidating[K comparable, V any](e *tiers.Entry[K, V], now int64) bool {
	return now >= e.Expires && now < min(e.StaleUntil, e.CheckBy)
}

// excusable reports whether e may be answered at now because its load does not succeed.
func excusable[K comparable, V any](e *tiers.Entry[K, V], now int64) bool {
	return e != nil && now < e.ErrorUntil && (now < e.Expires || !e.NotFound)
}
