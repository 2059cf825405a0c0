package cache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/tiers"
)

func TestUnreachableRedisCostsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, src := &events{}, &source{}
		w := newWorldWith(t, tiers.RedisOptions{Observer: seen})
		refused := errors.New("connection refused")
		for _, command := range []string{"get", "set", "unlink"} {
			w.wire.always(command, refused)
		}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 100 * time.Millisecond, Remote: w.Redis, Jitter: off,
			StaleIfError: off, StaleWhileRevalidate: off,
		})
		for i := range 50 {
			is(t, i+1)(c.Get(t.Context(), "a"))
			is(t, i+1)(c.Get(t.Context(), "a"))
			time.Sleep(100 * time.Millisecond)
		}
		assert.True(t, seen.count(observe.RedisDown) > 0, "no alarm: ")
		assert.True(t, w.Stats().Rejected > 0, "the breaker stays closed: ")
		assert.Error(t, c.Invalidate(t.Context(), "a"))
		w.wire.clear()
		time.Sleep(10 * time.Second)
		for range 3 {
			is(t, int(src.loads.Load())+1)(c.Get(t.Context(), "a"))
			time.Sleep(2 * time.Second)
		}
		assert.True(t, seen.count(observe.RedisUp) > 0, "Redis is not up again: ")
	})
}

func TestInvalidationThatDoesNotReachRedisIsAnErrorAndTakesEffectHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, src, w := &events{}, &source{}, newWorld(t)
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Remote: w.Redis, Observer: seen})
		is(t, 1)(c.Get(t.Context(), "a"))
		w.wire.always("unlink", errSource)
		w.wire.always("get", errSource)
		assert.ErrorIs(t, c.Invalidate(t.Context(), "a"), errSource)
		assert.Equal(t, seen.count(observe.InvalidateError), 1)
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}
