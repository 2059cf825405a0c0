package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/snowshed-go/snowshed/observe"
)

// Invalidate makes what is cached of the keys unusable. Call it after the change was committed at the source. Once it
// has returned, no Get of this process that starts later answers a value that was loaded before it was called, not
// even a stale one. First it waits for values of the keys that this process is writing to Redis, until ctx ends. What it
// cannot wait for is a write that timed out, or another process's: if that arrives later, Redis holds the old value until
// its TTL ends. It returns an error if Redis could not be told; this process has forgotten the values all the same.
func (c *Cache[K, V]) Invalidate(ctx context.Context, keys ...K) error {
	if c.closed.Load() {
		return ErrClosed
	}
	c.forget(keys)
	if c.remote == nil || len(keys) == 0 {
		return nil
	}
	err := c.written(ctx, keys)
	err = errors.Join(err, c.remote.Delete(ctx, keys...))
	// Once more: between the first time and the deletion, a reader may have taken the old value from Redis.
	c.forget(keys)
	if err != nil {
		c.emit(observe.InvalidateError, observe.Warn, "an invalidation did not reach Redis", err, 0)
		return fmt.Errorf("cache %q: invalidating in Redis: %w", c.opts.Name, err)
	}
	return nil
}

// written waits until no older value of keys is on its way to Redis, where it would arrive after the deletion.
func (c *Cache[K, V]) written(ctx context.Context, keys []K) error {
	for _, k := range keys {
		if err := c.writes.wait(ctx, c.opts.Key(k)); err != nil {
			return err
		}
	}
	return nil
}

// forget moves the epochs of keys, then lets go of their flights: a reader that comes later joins none that began
// earlier.
func (c *Cache[K, V]) forget(keys []K) {
	for _, k := range keys {
		c.local.Invalidate(k)
		text := c.opts.Key(k)
		c.flights.Forget(text)
		c.rests.clear(text)
	}
}
