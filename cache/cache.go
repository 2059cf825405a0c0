package cache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/snowshed-go/snowshed/lock"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/tiers"
)

// Cache reads values of one kind through its tiers. It is safe for concurrent use. Close it when done.
type Cache[K comparable, V any] struct {
	local  *tiers.LocalView[K, V]
	clone  func(V) V
	counts counters

	opts     Options[K, V] // with defaults
	clock    *tiers.Local
	ownLocal bool // clock is to be closed with the cache
	remote   *tiers.RedisView[K, V]
	guard    protection.Policy
	flights  *lock.Flights[outcome[K, V]]
	refresh  *refreshers
	rests    *rests
	runway   *runway
	loads    *running // orphans included
	writes   *writes
	closed   atomic.Bool
}

// New returns a cache. It checks the options, of which it keeps a copy, and returns an error that names the first field
// that is wrong. It never dials: with Redis out of reach the cache works on its other parts.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{
		clone: o.Clone, opts: o, clock: o.Local, guard: o.Guard,
		flights: lock.NewFlights[outcome[K, V]](), loads: newRunning(), writes: newWrites(),
		rests:  newRests(o.RetryBackoff, o.MaxRetryBackoff, recoveries(o.Guard)),
		runway: newRunway(o.Name, o.StaleIfError, o.Observer),
	}
	c.refresh = newRefreshers(o.Refreshers)
	if o.Remote != nil {
		c.remote, err = tiers.NewRedisView(o.Remote, tiers.RedisViewOptions[K, V]{Name: o.Name, Key: o.Key, Codec: o.Codec})
		if wrong, ok := errors.AsType[*tiers.OptionError](err); ok {
			return nil, o.bad(wrong.Field, "%s", wrong.Problem)
		}
		if err != nil {
			return nil, fmt.Errorf("cache %q: Options.Remote: %w", o.Name, err)
		}
	}
	if c.clock == nil {
		if c.clock, err = tiers.NewLocal(tiers.LocalOptions{}); err != nil {
			return nil, fmt.Errorf("cache %q: Options.Local: %w", o.Name, err)
		}
		c.ownLocal = true
	}
	c.local, err = tiers.NewLocalView[K](c.clock, tiers.LocalViewOptions[V]{Size: o.Size})
	if err != nil {
		return nil, fmt.Errorf("cache %q: Options.Local: %w", o.Name, err)
	}
	return c, nil
}

// Close refuses new work and waits for loads and refreshes that run. When ctx ends first it cancels them and returns
// ctx's error. After it every call returns ErrClosed. It may be called again, and concurrently. It closes neither
// Options.Remote nor an Options.Local that was given.
func (c *Cache[K, V]) Close(ctx context.Context) error {
	c.closed.Store(true)
	err := errors.Join(
		c.refresh.close(ctx),
		c.flights.Close(ctx),
		c.loads.close(ctx),
	)
	c.local.Reset() // flights have ended, or cannot put any more: from here on the hot path finds nothing
	if c.ownLocal {
		err = errors.Join(err, c.clock.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("cache %q: closing: %w", c.opts.Name, err)
	}
	return nil
}

func (c *Cache[K, V]) emit(kind observe.Kind, level observe.Level, message string, err error, took time.Duration) {
	observe.Emit(c.opts.Observer, observe.Event{
		Kind: kind, Level: level, Source: c.opts.Name, Message: message, Err: err, Duration: took,
	})
}
