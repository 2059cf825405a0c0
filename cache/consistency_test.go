package cache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
)

// row is a source with one row that a writer changes, and a load that can be made to stand after it has read the row.
type row struct {
	version atomic.Int64
	loads   atomic.Int64
	stall   atomic.Pointer[pause]
}

func (r *row) Load(context.Context, string) (int, error) {
	r.loads.Add(1)
	v := int(r.version.Load())
	if p := r.stall.Swap(nil); p != nil {
		p.stand()
	}
	return v, nil
}

// stallNext lets the next load stand after it has read.
func (r *row) stallNext() *pause {
	p := newPause()
	r.stall.Store(p)
	return p
}

func openRow(t *testing.T, w *world, o cache.Options[string, int]) (*row, *cache.Cache[string, int]) {
	t.Helper()
	r := &row{}
	r.version.Store(1)
	o.Load, o.LoadTimeout = r.Load, time.Hour
	if o.TTL == 0 {
		o.TTL = time.Minute
	}
	if w != nil {
		o.Remote = w.Redis
	}
	return r, open(t, o)
}

func TestI3LoadOvertakenByInvalidationIsStoredInNoTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		stalled := r.stallNext()
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-stalled.reached
		r.version.Store(2)
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		stalled.release()
		got := <-reader
		is(t, 1)(got.value, got.err) // it came before the invalidation
		settle()
		assert.True(t, !w.holds("a"), "an overtaken value is in Redis: ")
		assert.Equal(t, w.Stats().Sets, 0, "an overtaken value was sent to Redis")
		is(t, 2)(c.Get(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a"))
		assert.Equal(t, r.loads.Load(), 2)
	})
}

func TestI3NewerValueIsNotReplacedByAnOvertakenOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		stalled := r.stallNext()
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-stalled.reached
		r.version.Store(2)
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a")) // must not join the flight that stands
		stalled.release()
		<-reader
		settle()
		is(t, 2)(c.Get(t.Context(), "a"))
		assert.Equal(t, r.loads.Load(), 2)
		_, other := openRow(t, w, cache.Options[string, int]{})
		got, err := other.Lookup(t.Context(), "a", cache.Read{})
		assert.NoError(t, err)
		assert.Equal(t, got.Value, 2)
		assert.Equal(t, got.Source, cache.FromRedis)
	})
}

// The write to Redis was on its way when the invalidation passed it.
func TestI3LateSetIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		set := w.wire.holdRequest("set")
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-set.reached
		r.version.Store(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, c.Invalidate(ctx, "a"), context.DeadlineExceeded) // it does not know what will become of the write
		set.release()
		<-reader
		settle()
		assert.True(t, !w.holds("a"), "an overtaken value is in Redis: ")
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

// An invalidation waits for a write that it has overtaken, and nobody reads from Redis what that write brings.
func TestI3LateSetIsSeenByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		sent, answered := w.wire.holdRequest("set"), w.wire.pause()
		w.wire.rules[0].after = answered.stand
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-sent.reached
		r.version.Store(2)
		writer := later(func() (int, error) { return 0, c.Invalidate(t.Context(), "a") })
		settle()
		assert.Equal(t, len(writer), 0, "invalidations that did not wait")
		sent.release()
		<-answered.reached
		is(t, 2)(c.Get(t.Context(), "a"))
		answered.release()
		is(t, 1)(got(<-reader))
		is(t, 0)(got(<-writer))
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

// The deletion of an invalidation comes last even if that of the flight fails.
func TestI3LateSetWhoseDeletionFailsIsInvalidated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		set := w.wire.holdRequest("set")
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-set.reached
		r.version.Store(2)
		w.wire.add(&rule{command: "unlink", before: func() error { return errSource }})
		writer := later(func() (int, error) { return 0, c.Invalidate(t.Context(), "a") })
		settle()
		set.release()
		is(t, 1)(got(<-reader))
		is(t, 0)(got(<-writer))
		assert.True(t, !w.holds("a"), "an overtaken value is in Redis: ")
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

func got[V any](r reply[V]) (V, error) { return r.value, r.err }

// The epoch counts from before the read of Redis.
func TestI3RedisReplyHeldBackOverInvalidationIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, warm := openRow(t, w, cache.Options[string, int]{})
		is(t, 1)(warm.Get(t.Context(), "a"))

		r, c := openRow(t, w, cache.Options[string, int]{})
		held := w.wire.holdReply("get")
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-held.reached
		r.version.Store(2)
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		held.release()
		<-reader
		settle()
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

// Trace 1: between the start of an invalidation and its deletion in Redis, a reader takes the old value from there.
func TestI3OldValueReadDuringInvalidationIsNotHitAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		is(t, 1)(c.Get(t.Context(), "a"))
		r.version.Store(2)
		deletion := w.wire.holdRequest("unlink")
		writer := later(func() (int, error) { return 0, c.Invalidate(t.Context(), "a") })
		<-deletion.reached
		_, _ = c.Get(t.Context(), "a") // either is right: the invalidation has not returned
		deletion.release()
		assert.NoError(t, (<-writer).err)
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

// Trace 1 with a flight: what was read before the deletion is still on its way when the invalidation has returned.
func TestI3FlightBegunDuringInvalidationIsNotJoinedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		is(t, 1)(c.Get(t.Context(), "a"))
		r.version.Store(2)
		deletion, held := w.wire.holdRequest("unlink"), w.wire.holdReply("get")
		writer := later(func() (int, error) { return 0, c.Invalidate(t.Context(), "a") })
		<-deletion.reached
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-held.reached // it has v1
		deletion.release()
		assert.NoError(t, (<-writer).err)
		is(t, 2)(c.Get(t.Context(), "a")) // must not join the reader that has v1
		held.release()
		<-reader
		settle()
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

// Trace 17: the deletion fails. What a reader took from Redis meanwhile must not stay.
func TestI3OldValueReadDuringFailingInvalidationIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		is(t, 1)(c.Get(t.Context(), "a"))
		r.version.Store(2)
		deletion := w.wire.pause()
		w.wire.add(&rule{command: "unlink", before: func() error { deletion.stand(); return errSource }})
		writer := later(func() (int, error) { return 0, c.Invalidate(t.Context(), "a") })
		<-deletion.reached
		_, _ = c.Get(t.Context(), "a")
		deletion.release()
		assert.Error(t, (<-writer).err)
		w.server.FlushAll() // what Redis kept is another matter
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

func TestWriteThenReadOnOneProcessNeverSeesTheOldCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		for v := range 200 {
			r.version.Store(int64(v))
			assert.NoError(t, c.Invalidate(t.Context(), "a"))
			is(t, v)(c.Get(t.Context(), "a"))
		}
	})
}
