package cache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
)

// A look tells the truth about presence beside loads that run, and joins none.
func TestLookOnlyTellsTheTruthAndJoinsNoLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		src.takes.Store(int64(time.Second))
		o := cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, StaleIfError: 10 * time.Second, Jitter: off, Remote: w.Redis}
		c, other := open(t, o), open(t, o)
		look := func(c *cache.Cache[string, int]) (cache.Answer[int], error) {
			began := time.Now()
			got, err := c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
			assert.Equal(t, time.Since(began), 0, "a look waited: ")
			return got, err
		}
		fails[cache.Answer[int]](t, cache.ErrNotCached)(look(c))
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		settle()
		fails[cache.Answer[int]](t, cache.ErrNotCached)(look(c))
		<-reader
		is(t, cache.Answer[int]{Value: 1, Source: cache.FromMemory, Age: time.Second})(look(c))
		is(t, cache.Answer[int]{Value: 1, Source: cache.FromRedis, Age: time.Second})(look(other))
		is(t, cache.Answer[int]{Value: 1, Source: cache.FromRedis, Age: time.Second})(look(other)) // it fills nothing
		time.Sleep(11 * time.Second)
		is(t, cache.Answer[int]{Value: 1, Source: cache.FromRedis, Age: 12 * time.Second, Stale: true})(look(c))
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		fails[cache.Answer[int]](t, cache.ErrNotCached)(look(c))
		assert.Equal(t, src.loads.Load(), 1)
		assert.Equal(t, c.Stats().Refreshes, 0)
	})
}

func TestLookOnlyAtAnUnreachableRedisIsAnErrorUnlessMemoryHasAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, LocalTTL: time.Second, Jitter: off, Remote: w.Redis})
		is(t, 1)(c.Get(t.Context(), "a"))
		w.wire.always("get", errSource)
		time.Sleep(2 * time.Second)
		got, err := c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
		is(t, cache.Answer[int]{Value: 1, Source: cache.FromMemory, Age: 2 * time.Second, Stale: true})(got, err)
		_, err = c.Lookup(t.Context(), "b", cache.Read{NoLoad: true})
		assert.ErrorIs(t, err, errSource)
	})
}

// A look does not go back to what Redis has when memory has a newer value.
func TestI4LookOnlyPrefersTheNewerValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, LocalTTL: time.Second, Jitter: off, Beta: off, Remote: w.Redis,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		w.wire.always("set", errSource)
		time.Sleep(time.Second)
		is(t, 2)(c.Refresh(t.Context(), "a"))
		time.Sleep(2 * time.Second)
		got, err := c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
		assert.NoError(t, err)
		assert.Equal(t, got.Value, 2)
		v, err := c.Get(t.Context(), "a")
		assert.NoError(t, err)
		assert.True(t, v >= 2, "went back to ", v, ": ")
	})
}
