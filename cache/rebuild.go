package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/internal/contain"
	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/lock"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/tiers"
)

// wish is what a flight must bring. The zero wish takes any fresh value from Redis before it loads, and a stale one that
// may be revalidated.
type wish struct {
	since int64  // a value whose load began at or after it
	not   uint64 // another value than the one with this number, which is to be refreshed
	load  bool   // a newly loaded one
}

// grants reports whether what a flight with another wish brought will do.
func grants[K comparable, V any](w wish, got outcome[K, V]) bool {
	return got.entry.Start >= w.since && (w.not == 0 || got.entry.Number != w.not) && (!w.load || got.from == FromLoad)
}

// board joins the flight of key or starts it. Who joins gets what the first one wished for.
func (c *Cache[K, V]) board(ctx context.Context, key K, w wish) (lock.Ticket[outcome[K, V]], error) {
	t, err := c.flights.Join(ctx, c.opts.Key(key), func(ctx context.Context) (outcome[K, V], error) {
		return c.rebuild(ctx, key, w)
	})
	return t, c.translated(ctx, err)
}

// translated puts the errors of a flight into the words of this package, for a caller with ctx.
func (c *Cache[K, V]) translated(ctx context.Context, err error) error {
	switch {
	case c.closed.Load() && ctx.Err() == nil && errors.Is(err, context.Canceled):
		return ErrClosed // it was Close that cancelled the load
	case errors.Is(err, lock.ErrClosed):
		return ErrClosed
	case errors.Is(err, lock.ErrCycle):
		return ErrCycle
	}
	return err
}

// rebuild is the work of a flight: look in Redis, else load, then store. The epoch is taken first, so that what an
// invalidation overtakes on the way is stored nowhere; only this flight's own waiters, who came before it, get it.
func (c *Cache[K, V]) rebuild(ctx context.Context, key K, w wish) (outcome[K, V], error) {
	at := c.local.Epoch(key)
	if c.closed.Load() { // then the epoch may be from after the end, and what is put would be found
		return outcome[K, V]{}, ErrClosed
	}
	if e := c.local.Get(key); e != nil && fresh(e, c.clock.Now()) {
		// It came between this reader's look and its flight.
		if got := (outcome[K, V]{e, FromMemory, false}); grants(w, got) {
			return got, nil
		}
	}
	found, away := c.fetch(ctx, key) // without Redis the flight goes on to the loader
	if found != nil {
		if !c.local.Put(found, at) {
			found = c.newest(found)
		}
		now := c.clock.Now()
		got := outcome[K, V]{found, FromRedis, now >= found.Expires} // CheckBy is for later reads of this copy
		switch {
		case !grants(w, got):
		case !got.stale:
			return got, nil
		case now < found.StaleUntil && w == wish{}:
			c.refreshBehind(ctx, found)
			return got, nil
		}
	}
	text := c.opts.Key(key)
	if !w.load {
		if err := c.rests.check(text, c.clock.Now()); err != nil {
			return outcome[K, V]{entry: found}, err
		}
	}
	l, err := c.load(ctx, key)
	c.settle(key, at, l, err)
	if err != nil {
		return outcome[K, V]{entry: found}, err
	}
	c.conclude(ctx, l, at, found != nil, away != nil)
	return outcome[K, V]{l.entry, FromLoad, l.keep && c.clock.Now() >= l.entry.Expires}, nil
}

// conclude stores what was loaded, or removes what it replaces. replaces tells that Redis held an older value when the
// load began, away that it did not answer.
func (c *Cache[K, V]) conclude(ctx context.Context, l loaded[K, V], at tiers.Epoch, replaces, away bool) {
	switch {
	case l.keep && away:
		c.local.Put(l.entry, at) // what does not answer a read is not given a write to wait for
	case l.keep:
		c.store(ctx, l.entry, at, replaces)
	case l.drop && (replaces || c.local.Get(l.entry.Key) != nil):
		c.drop(ctx, l.entry.Key)
	}
}

// newest returns the local entry of e's key if it is newer, else e: Redis may hold an older value than this process,
// which must not go back to it.
func (c *Cache[K, V]) newest(e *tiers.Entry[K, V]) *tiers.Entry[K, V] {
	if l := c.local.Get(e.Key); l != nil && l.Start > e.Start {
		return l
	}
	return e
}

// fetch reads the value of key from Redis. It returns nil for a miss, and nil with an error if Redis could not be read.
func (c *Cache[K, V]) fetch(ctx context.Context, key K) (*tiers.Entry[K, V], error) {
	if c.remote == nil || c.writes.running(c.opts.Key(key)) {
		return nil, nil //nolint:nilnil // a miss, or as good as one: what a flight is writing may have been overtaken
	}
	sent := c.clock.Now()
	s, err := c.remote.Get(ctx, key)
	if errors.Is(err, tiers.ErrMiss) {
		return nil, nil //nolint:nilnil // a miss
	}
	if err != nil {
		return nil, err
	}
	e := &tiers.Entry[K, V]{
		Key: key, Value: s.Value, NotFound: s.NotFound, LoadTime: s.LoadTime,
		Start: sent - int64(s.Age), Generation: s.Generation, Number: s.Number,
	}
	if l := c.local.Get(key); l != nil && l.Number == e.Number {
		e.Start = l.Start // the same value, and here its start is known exactly
	}
	c.live(e, s.TTL, sent)
	return e, nil
}

// loaded is what a load came to.
type loaded[K comparable, V any] struct {
	entry *tiers.Entry[K, V]
	keep  bool // whether it is to be stored
	drop  bool // whether an older value must not stay either
	tried bool // whether the loader was called
}

// load asks the guard, then the loader.
func (c *Cache[K, V]) load(ctx context.Context, key K) (l loaded[K, V], err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.LoadTimeout, ErrLoadTimeout)
	defer cancel()
	defer func() { err = named(ctx, err) }()
	var permit protection.Permit
	if c.guard != nil {
		if permit, err = c.guard.Acquire(ctx); err != nil {
			return l, err
		}
	}
	if !c.loads.enter() {
		permit.Done(protection.Ignored)
		return l, ErrClosed
	}
	l.tried = true
	ctx, hints := loader.WithHints(ctx)
	start, number := c.clock.Now(), uint64(time.Now().UnixMicro())
	v, err := c.call(ctx, key, permit)
	took := time.Duration(c.clock.Now() - start)

	e := &tiers.Entry[K, V]{Key: key, Value: v, Start: start, LoadTime: took, Number: number}
	ttl := c.opts.TTL
	if h := hints.TTL(); h > 0 {
		ttl = min(h, longest)
	}
	if loader.IsNotFound(err) {
		var none V
		e.NotFound, e.Value, err = true, none, nil
		if hints.TTL() == 0 {
			ttl = c.opts.NegativeTTL
		}
	}
	if err != nil {
		return l, err
	}
	c.live(e, c.jittered(ttl), c.clock.Now())
	l.entry, l.keep, l.drop = e, ttl > 0 && !hints.NoStore(), ttl == 0 && !hints.NoStore()
	return l, nil
}

// named makes an error that comes from the end of LoadTimeout say so, wherever it was noticed: the caller's own ctx has
// not ended.
func named(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrLoadTimeout) && errors.Is(context.Cause(ctx), ErrLoadTimeout) {
		return fmt.Errorf("%w: %w", ErrLoadTimeout, err)
	}
	return err
}

// call runs the loader in a goroutine of its own, which keeps its permit until it really ends. A loader that does not
// return when ctx ends, at LoadTimeout or at the guard's own limit, is left behind as an orphan, and whatever it returns
// later is lost.
func (c *Cache[K, V]) call(ctx context.Context, key K, permit protection.Permit) (V, error) {
	limit := c.opts.LoadTimeout
	if own := permit.Limit(); own > 0 {
		limit = min(own, limit)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, own, protection.ErrExecutionTimeout)
		defer cancel()
	}
	c.counts.loads.Add(1)
	c.counts.loading.Add(1)
	ch := contain.Go(func() (v V, err error) {
		outcome := protection.Failure // stands for a panic and for Goexit
		defer func() {
			permit.Done(outcome)
			c.counts.loading.Add(-1)
			c.loads.leave()
		}()
		v, err = c.opts.Load(ctx, key)
		outcome = verdict(ctx, &permit, err)
		return v, err
	})
	select {
	case r := <-ch:
		return r.Value, r.Err
	case <-ctx.Done():
	}
	// A loader that honours ctx returns about now, and with a better error than ours.
	const grace = 10 * time.Millisecond
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-ch:
		return r.Value, r.Err
	case <-timer.C:
	}
	c.counts.orphans.Add(1)
	go func() {
		<-ch
		c.counts.orphans.Add(-1)
	}()
	c.emit(observe.LoadOrphaned, observe.Warn, "a loader did not return at its deadline and still runs", nil, limit)
	var none V
	return none, context.Cause(ctx)
}

// verdict is what the end of a load tells the guard: what the guard itself makes of the error, but that a key which is not
// there is an answer, and LoadTimeout no deadline of a caller's.
func verdict(ctx context.Context, permit *protection.Permit, err error) protection.Outcome {
	if errors.Is(context.Cause(ctx), ErrLoadTimeout) {
		return protection.Timeout
	}
	if loader.IsNotFound(err) {
		err = nil
	}
	return permit.Outcome(ctx, err)
}

// settle notes how a load went: a failed key rests, and so is not asked for again by every caller in turn. A refusal by
// a guard leaves no mark, since nothing was tried; nor does the end of the cache, nor a load that an invalidation has
// overtaken.
func (c *Cache[K, V]) settle(key K, at tiers.Epoch, l loaded[K, V], err error) {
	text := c.opts.Key(key)
	switch {
	case err == nil:
		c.rests.clear(text)
	case errors.Is(err, ErrClosed) && !l.tried:
	case !l.tried, errors.Is(err, protection.ErrRejected):
		c.counts.refused.Add(1)
		c.emit(observe.LoadRefused, observe.Info, "a load was refused", err, 0)
	case c.closed.Load() && errors.Is(err, context.Canceled):
	default:
		c.counts.loadErrors.Add(1)
		if c.local.Unmoved(key, at) {
			c.rests.fail(text, err, c.clock.Now())
		}
		c.emit(observe.LoadFailed, observe.Info, "a load failed", err, 0)
	}
}

// store puts a loaded value into both tiers, unless an invalidation has overtaken it. replaces tells that Redis held an
// older value when the load began.
func (c *Cache[K, V]) store(ctx context.Context, e *tiers.Entry[K, V], at tiers.Epoch, replaces bool) {
	c.local.Put(e, at)
	if c.remote == nil {
		return
	}
	text := c.opts.Key(e.Key)
	c.writes.begin(text) // before the look at the epoch: an invalidation that moves it later waits for the end
	defer c.writes.end(text)
	var err error
	sent := c.local.Unmoved(e.Key, at)
	if sent {
		err = c.remote.Set(ctx, e.Key, tiers.Stored[V]{
			Value: e.Value, NotFound: e.NotFound, LoadTime: e.LoadTime, Number: e.Number, Generation: e.Generation,
			Age:  time.Duration(c.clock.Now() - e.Start),
			TTL:  time.Duration(e.Expires - e.Start),
			Life: time.Duration(e.ErrorUntil - e.Start),
		})
	}
	late := sent && !c.local.Unmoved(e.Key, at)
	// Three reasons to delete: an invalidation may have given up its wait for this write; Redis cannot keep this value, and
	// the older one must not come back; nor must it when the epoch was moved by another key of its stripe. At worst a newer
	// value goes too.
	if late || c.unstorable(err) || !sent && replaces {
		err = errors.Join(err, c.remote.Delete(context.WithoutCancel(ctx), e.Key))
	}
	if err != nil {
		c.counts.storeErrors.Add(1)
	}
}

// unstorable reports whether err says that the value itself is what Redis cannot store, and tells the observer.
func (c *Cache[K, V]) unstorable(err error) bool {
	switch {
	case errors.Is(err, tiers.ErrTooLarge):
		c.emit(observe.TooLarge, observe.Warn, "a value is too large for Redis; it was served all the same", err, 0)
	case errors.As(err, new(*tiers.EncodeError)):
		c.emit(observe.EncodeFailed, observe.Warn, "a value could not be encoded for Redis; it was served all the same", err, 0)
	default:
		return false
	}
	return true
}

// drop removes the values of key, which are older than what its load has just said and what is not to be stored.
func (c *Cache[K, V]) drop(ctx context.Context, key K) {
	if c.remote != nil {
		if err := c.remote.Delete(ctx, key); err != nil {
			c.counts.storeErrors.Add(1)
		}
	}
	c.local.Invalidate(key)
}
