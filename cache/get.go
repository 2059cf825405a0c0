package cache

import (
	"context"
	"errors"
	"time"

	"github.com/snowshed-go/snowshed/lock"
	"github.com/snowshed-go/snowshed/tiers"
)

// Get returns the value of key: fresh from memory or Redis, or loaded, or stale within the bounds of Options. It returns
// a value or an error, never both: [ErrNotFound] if the source does not have the key, a [*protection.RejectedError] if
// the guard refused the load and no stale value was left, a [*BackoffError] or the loader's own error if the load
// failed, ctx's error if ctx ended first, [ErrClosed] after Close. A load that ctx's end leaves behind goes on and its
// result is stored. The value is shared with other callers, who must not modify it, unless Options.Clone is set.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	if e := c.local.Fresh(key); e != nil && !e.NotFound {
		if c.counts.fresh.Add()%touchEvery == 0 {
			c.local.Touch(e) // so that the capacity store learns that the key is hot
		}
		if c.clone != nil {
			return c.clone(e.Value), nil
		}
		return e.Value, nil
	}
	got, err := c.find(ctx, key, Read{})
	if err != nil {
		var none V
		return none, err
	}
	return c.copied(got.entry.Value), nil
}

// touchEvery is how many hits of the hot table there are for one that its capacity store hears of. Hit ratios are the same
// from 1 to 256 (Zipf 0.99, room for a tenth of the keys, still or shifting), and the hearing takes as long as two hits.
const touchEvery = 256

// Read narrows what a Lookup may do and answer.
type Read struct {
	// MaxAge is the greatest age, counted from the start of its load to the moment of the call, that the answer may have.
	// An older value is loaded anew, and is no answer if that fails. Zero: what Options allow.
	MaxAge time.Duration
	// NoLoad only looks: in memory, then in Redis. It joins no load, starts none, and fills nothing.
	NoLoad bool
}

// Source is where an answer came from.
type Source uint8

// The sources of an answer.
const (
	FromMemory Source = iota + 1 // the local tier
	FromRedis                    // the remote tier
	FromLoad                     // the loader
)

// String returns "memory", "redis" or "load".
func (s Source) String() string {
	return [...]string{"unknown", "memory", "redis", "load"}[min(s, FromLoad)]
}

// Answer is a value with what is known of it.
type Answer[V any] struct {
	Value  V             // shared unless Options.Clone is set
	Source Source        // where it came from
	Age    time.Duration // since the start of its load; it errs to old
	Stale  bool          // whether its TTL has ended
}

// Lookup is [Cache.Get] with a say in how old the answer may be and whether to load, and with more in the answer. With
// NoLoad it returns [ErrNotCached] for a key that no tier holds a usable value of.
func (c *Cache[K, V]) Lookup(ctx context.Context, key K, r Read) (Answer[V], error) {
	got, err := c.find(ctx, key, r)
	if err != nil {
		return Answer[V]{}, err
	}
	return Answer[V]{
		Value: c.copied(got.entry.Value), Source: got.from, Stale: got.stale,
		Age: time.Duration(c.clock.Now() - got.entry.Start),
	}, nil
}

func (c *Cache[K, V]) copied(v V) V {
	if c.clone != nil {
		return c.clone(v)
	}
	return v
}

// outcome is what a read, or a flight, came to. When a flight fails, entry may still be a stale value met on its way.
type outcome[K comparable, V any] struct {
	entry *tiers.Entry[K, V]
	from  Source
	stale bool
}

// find answers a read that the hot path did not, and counts it. A not-found entry becomes ErrNotFound.
func (c *Cache[K, V]) find(ctx context.Context, key K, r Read) (outcome[K, V], error) {
	got, err := c.resolve(ctx, key, r)
	absent := err == nil && got.entry.NotFound
	c.counts.count(ctx, got.from, absent, got.stale, err)
	if absent {
		return got, ErrNotFound
	}
	return got, err
}

// resolve judges the local copy at this moment, and goes on to the flight of the key if it will not do.
func (c *Cache[K, V]) resolve(ctx context.Context, key K, r Read) (outcome[K, V], error) {
	if c.closed.Load() {
		return outcome[K, V]{}, ErrClosed
	}
	if r.MaxAge < 0 {
		return outcome[K, V]{}, errors.New("cache: Read.MaxAge is negative")
	}
	if r.NoLoad {
		return c.peek(ctx, key, r)
	}
	e := c.local.Get(key)
	now := c.clock.Now()
	if e != nil && r.allows(e.Start, now) {
		switch {
		case fresh(e, now):
			if c.dueEarly(e, now) {
				c.refreshBehind(ctx, e)
			}
			return outcome[K, V]{e, FromMemory, false}, nil
		case revalidating(e, now):
			c.refreshBehind(ctx, e)
			return outcome[K, V]{e, FromMemory, true}, nil
		case excusable(e, now) && now < e.CheckBy && c.rests.rest(c.opts.Key(key), now):
			return c.excused(e, now), nil // its load failed a moment ago: not worth a flight
		}
	}
	return c.fly(ctx, key, r, now)
}

// excused answers a value because the load that should replace it does not succeed. It may still be fresh: when its load
// has ended but is still being stored. A copy past LocalTTL is stale even within its TTL: what other processes did to the
// key may not be known here.
func (c *Cache[K, V]) excused(e *tiers.Entry[K, V], now int64) outcome[K, V] {
	stale := !fresh(e, now)
	if stale {
		c.runway.note(e.ErrorUntil, now)
	}
	return outcome[K, V]{e, FromMemory, stale}
}

// allows reports whether a value whose load began at start is young enough.
func (r Read) allows(start, now int64) bool { return r.MaxAge == 0 || now-start <= int64(r.MaxAge) }

// fly waits for the flight of key, but no longer than SoftTimeout if there is a stale value to answer with instead.
func (c *Cache[K, V]) fly(ctx context.Context, key K, r Read, now int64) (outcome[K, V], error) {
	if err := ctx.Err(); err != nil {
		return c.excuse(ctx, key, r, nil, err) // nobody would wait for the load
	}
	var w wish
	if r.MaxAge > 0 {
		w.since = now - int64(r.MaxAge)
	}
	for {
		t, err := c.board(ctx, key, w)
		if err != nil {
			return outcome[K, V]{}, err
		}
		got, led, err := c.wait(ctx, t, key, r)
		switch {
		case err != nil:
			return c.excuse(ctx, key, r, got.entry, err)
		case led || grants(w, got):
			return got, nil
		} // else it was somebody else's flight, with other wishes
	}
}

// wait waits for a flight. If patience ends first and a stale value may be answered, that is what it returns.
func (c *Cache[K, V]) wait(ctx context.Context, t lock.Ticket[outcome[K, V]], key K, r Read) (got outcome[K, V], led bool, err error) {
	if c.opts.SoftTimeout > 0 && c.opts.StaleIfError > 0 {
		soft := time.NewTimer(c.opts.SoftTimeout)
		defer soft.Stop()
		got, led, err = t.Wait(ctx, soft.C)
		if !errors.Is(err, lock.ErrPatience) {
			return got, led, err
		}
		// Looked up only now: the flight itself may have found it in Redis.
		now := c.clock.Now()
		if e := c.stale(key, r, nil, now); e != nil {
			t.Leave()
			return c.excused(e, now), true, nil
		}
	}
	return t.Wait(ctx, nil)
}

// excuse answers a failed flight with a stale value, if one may still be used at this moment.
func (c *Cache[K, V]) excuse(ctx context.Context, key K, r Read, found *tiers.Entry[K, V], err error) (outcome[K, V], error) {
	now := c.clock.Now()
	if !errors.Is(err, lock.ErrClosed) && !errors.Is(ctx.Err(), context.Canceled) {
		if e := c.stale(key, r, found, now); e != nil {
			return c.excused(e, now), nil
		}
	}
	return outcome[K, V]{}, c.translated(ctx, err)
}

// stale returns an entry that may be answered at now because its load does not succeed: the local one, else found.
func (c *Cache[K, V]) stale(key K, r Read, found *tiers.Entry[K, V], now int64) *tiers.Entry[K, V] {
	for _, e := range [...]*tiers.Entry[K, V]{c.local.Get(key), found} {
		if excusable(e, now) && r.allows(e.Start, now) {
			return e
		}
	}
	return nil
}

// peek looks in the tiers without any effect on them.
func (c *Cache[K, V]) peek(ctx context.Context, key K, r Read) (outcome[K, V], error) {
	now := c.clock.Now()
	e, from := c.local.Get(key), FromMemory
	if e == nil || !fresh(e, now) || !r.allows(e.Start, now) {
		remote, err := c.fetch(ctx, key)
		switch {
		case remote != nil && (e == nil || remote.Start >= e.Start):
			e, from = remote, FromRedis
		case err != nil && !excusable(e, now):
			return outcome[K, V]{}, err
		}
		now = c.clock.Now()
	}
	if !excusable(e, now) || !r.allows(e.Start, now) {
		return outcome[K, V]{}, ErrNotCached
	}
	if from == FromRedis {
		return outcome[K, V]{e, from, now >= e.Expires}, nil
	}
	return outcome[K, V]{e, from, !fresh(e, now)}, nil
}
