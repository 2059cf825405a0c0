package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// Stats counts what happened since the cache was made. Each Get and each Lookup ends in exactly one of the first nine.
type Stats struct {
	Fresh     uint64 // answered a value within its TTL, from memory or Redis
	Negative  uint64 // answered a remembered not-found
	Stale     uint64 // answered a value past its TTL
	Loaded    uint64 // answered what a load brought, not-found included, whoever started it
	Rejected  uint64 // refused by a guard, or resting after a failure, and no stale value left
	Failed    uint64 // the load failed or timed out, and no stale value left
	Cancelled uint64 // the caller's ctx ended first
	Closed    uint64 // came after Close
	NotCached uint64 // looked only, and found nothing

	FromRedis        uint64 // answers that came from Redis; they are among the ones above
	Loads            uint64 // calls of the loader
	LoadErrors       uint64 // of them failed; not-found is no failure
	LoadsRefused     uint64 // loads that a guard refused
	Refreshes        uint64 // refreshes behind answers
	RefreshesDropped uint64 // refreshes that found the queue full
	StoreErrors      uint64 // values that could not be stored in Redis

	Loading int64 // loaders that run now
	Orphans int64 // of them, those that outlived their deadline
	// Runway is how long the stale answers of the last seconds could go on while loads fail; zero if there were none.
	Runway time.Duration
}

// counters are the cells behind Stats. Those of the hot path are striped.
type counters struct {
	fresh                                                         observe.Counter
	negative, stale                                               observe.Counter
	loaded, rejected, failed, cancelled, closed, notCached, redis atomic.Uint64
	loads, loadErrors, refused, refreshes, dropped, storeErrors   atomic.Uint64
	loading, orphans                                              atomic.Int64
}

// count counts how one read ended.
func (c *counters) count(ctx context.Context, from Source, absent, stale bool, err error) {
	if from == FromRedis {
		c.redis.Add(1)
	}
	var resting *BackoffError
	switch {
	case err == nil && from == FromLoad:
		c.loaded.Add(1)
	case err == nil && stale:
		c.stale.Add()
	case err == nil && absent:
		c.negative.Add()
	case err == nil:
		c.fresh.Add()
	case errors.Is(err, ErrClosed):
		c.closed.Add(1)
	case errors.Is(err, ErrNotCached):
		c.notCached.Add(1)
	case errors.Is(err, protection.ErrRejected), errors.As(err, &resting):
		c.rejected.Add(1)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		c.cancelled.Add(1)
	default:
		c.failed.Add(1)
	}
}

// Stats returns the counters. It works on a closed cache too.
func (c *Cache[K, V]) Stats() Stats {
	n := &c.counts
	s := Stats{
		Fresh: n.fresh.Load(), Negative: n.negative.Load(), Stale: n.stale.Load(),
		Loaded: n.loaded.Load(), Rejected: n.rejected.Load(), Failed: n.failed.Load(), Cancelled: n.cancelled.Load(),
		Closed: n.closed.Load(), NotCached: n.notCached.Load(),
		FromRedis: n.redis.Load(), Loads: n.loads.Load(), LoadErrors: n.loadErrors.Load(), LoadsRefused: n.refused.Load(),
		Refreshes: n.refreshes.Load(), RefreshesDropped: n.dropped.Load(), StoreErrors: n.storeErrors.Load(),
		Loading: n.loading.Load(), Orphans: n.orphans.Load(),
	}
	if left, ok := c.runway.left(c.clock.Now()); ok {
		s.Runway = left
	}
	return s
}
