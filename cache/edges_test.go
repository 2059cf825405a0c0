package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
)

// A value that Redis holds is fresh when it arrives, however short LocalTTL is and however long the way.
func TestLocalTTLShorterThanARedisReadCostsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{TTL: time.Hour, LocalTTL: 50 * time.Millisecond})
		is(t, 1)(c.Get(t.Context(), "a"))
		w.wire.add(&rule{command: "get", always: true, after: func() { time.Sleep(60 * time.Millisecond) }})
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			is(t, 1)(c.Get(t.Context(), "a"))
		}
		assert.Equal(t, r.loads.Load(), 1)
	})
}

// Two processes share a Redis, and a copy of the one is past LocalTTL.
func TestCopyPastLocalTTLIsStaleAtBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		o := cache.Options[string, int]{Load: src.Load, Remote: w.Redis, TTL: time.Hour, LocalTTL: time.Second}
		p1, p2 := open(t, o), open(t, o)
		is(t, 1)(p1.Get(t.Context(), "a"))
		assert.NoError(t, p2.Invalidate(t.Context(), "a"))
		src.fails()
		time.Sleep(10 * time.Minute)
		a, err := p1.Lookup(t.Context(), "a", cache.Read{})
		assert.NoError(t, err)
		assert.True(t, a.Stale, "ten minutes past LocalTTL")
		a, err = p1.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
		assert.NoError(t, err)
		assert.True(t, a.Stale, "ten minutes past LocalTTL")
	})
}

func TestRestingKeyIsReadFromRedisAfterLocalTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		o := cache.Options[string, int]{
			Load: src.Load, Remote: w.Redis, TTL: time.Hour, LocalTTL: time.Second,
			RetryBackoff: time.Minute, MaxRetryBackoff: time.Minute,
		}
		p1, p2 := open(t, o), open(t, o)
		is(t, 1)(p1.Get(t.Context(), "a"))
		src.fails()
		_, err := p1.Refresh(t.Context(), "a")
		assert.ErrorIs(t, err, errSource)
		src.does(nil)
		assert.NoError(t, p2.Invalidate(t.Context(), "a"))
		is(t, 3)(p2.Get(t.Context(), "a"))
		time.Sleep(20 * time.Second)
		is(t, 3)(p1.Get(t.Context(), "a"))
	})
}

func TestLoadThatFailsAfterAnInvalidationLetsNothingRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, p := &source{}, newPause()
		src.does(func(context.Context, int) (int, error) { p.stand(); return 0, errSource })
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: time.Hour, LoadTimeout: time.Hour, RetryBackoff: time.Minute, MaxRetryBackoff: time.Minute,
		})
		old := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-p.reached
		src.does(nil)
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		p.release()
		assert.ErrorIs(t, (<-old).err, errSource)
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

func TestEndedCtxStartsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Get(ctx, "a")
		settle()
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, src.loads.Load(), 0)
	})
}

func TestRefreshLoadsThoughItJoinsAGetOfARestingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, Remote: w.Redis, TTL: time.Hour, RetryBackoff: time.Minute, MaxRetryBackoff: time.Minute,
		})
		src.fails()
		_, err := c.Get(t.Context(), "a")
		assert.ErrorIs(t, err, errSource)
		src.does(nil)
		held := w.wire.holdReply("get")
		get := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-held.reached
		refresh := later(func() (int, error) { return c.Refresh(t.Context(), "a") })
		settle()
		held.release()
		assert.ErrorAs[*cache.BackoffError](t, (<-get).err)
		got := <-refresh
		is(t, 2)(got.value, got.err)
	})
}

func TestRefreshThatCloseCancelsSaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(time.Hour))
		o := good()
		o.Load, o.LoadTimeout = src.Load, 2*time.Hour
		c, err := cache.New(o)
		assert.NoError(t, err)
		refresh := later(func() (int, error) { return c.Refresh(t.Context(), "a") })
		settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, c.Close(ctx), context.DeadlineExceeded)
		assert.ErrorIs(t, (<-refresh).err, cache.ErrClosed)
		assert.NoError(t, c.Close(t.Context()))
	})
}

func TestLookOnlyTakesTheYoungerValueOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		o := cache.Options[string, int]{Load: src.Load, Remote: w.Redis, TTL: time.Hour}
		p1, p2 := open(t, o), open(t, o)
		is(t, 1)(p1.Get(t.Context(), "a"))
		time.Sleep(time.Minute)
		is(t, 2)(p2.Refresh(t.Context(), "a"))
		a, err := p1.Lookup(t.Context(), "a", cache.Read{NoLoad: true, MaxAge: 10 * time.Second})
		assert.NoError(t, err)
		assert.Equal(t, a.Value, 2)
	})
}

func TestValueWhoseLoadOutlastsItsTTLIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(2 * time.Second))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Second, SoftTimeout: off})
		a, err := c.Lookup(t.Context(), "a", cache.Read{})
		assert.NoError(t, err)
		assert.True(t, a.Stale, "its age is ", a.Age)
	})
}

// Who does not get an answer from Redis is not to wait for a write to it as well.
func TestRedisThatDoesNotAnswerIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, c := openRow(t, w, cache.Options[string, int]{})
		w.wire.always("get", errSource)
		sets := newPause()
		w.wire.add(&rule{command: "set", always: true, before: func() error { sets.stand(); return nil }})
		got := <-later(func() (int, error) { return c.Get(t.Context(), "a") })
		is(t, 1)(got.value, got.err)
		assert.Equal(t, r.loads.Load(), 1)
	})
}

func TestRunwayRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: time.Second, Jitter: off, StaleWhileRevalidate: off, StaleIfError: 20 * time.Second,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		src.fails()
		time.Sleep(5 * time.Second)
		is(t, 1)(c.Get(t.Context(), "a"))
		assert.Equal(t, c.Stats().Runway, 16*time.Second)
		time.Sleep(3 * time.Second)
		assert.Equal(t, c.Stats().Runway, 13*time.Second)
	})
}
