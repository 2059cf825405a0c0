package cache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
)

// openSelfReading returns a cache whose loader reads, for each key, the keys that it depends on.
func openSelfReading(t *testing.T, needs map[string][]string) *cache.Cache[string, string] {
	t.Helper()
	var c *cache.Cache[string, string]
	c = open(t, cache.Options[string, string]{
		TTL: time.Minute, LoadTimeout: time.Minute, RetryBackoff: off,
		Load: func(ctx context.Context, k string) (string, error) {
			if err := rest(ctx, 10*time.Millisecond); err != nil {
				return "", err
			}
			all := []string{k}
			for _, other := range needs[k] {
				v, err := c.Get(ctx, other)
				if err != nil {
					return "", err
				}
				all = append(all, v)
			}
			return strings.Join(all, ""), nil
		},
	})
	return c
}

func TestLoaderMayReadOtherKeysOfItsCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openSelfReading(t, map[string][]string{"a": {"b", "c"}, "b": {"c"}})
		is(t, "abcc")(c.Get(t.Context(), "a"))
		is(t, "bc")(c.Get(t.Context(), "b"))
	})
}

func TestLoaderThatReadsItsOwnKeyGetsErrCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openSelfReading(t, map[string][]string{"a": {"a"}})
		began := time.Now()
		fails[string](t, cache.ErrCycle)(c.Get(t.Context(), "a"))
		assert.Equal(t, time.Since(began), 10*time.Millisecond)
	})
}

func TestLoadersThatReadEachOtherDoNotDeadlock(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			c := openSelfReading(t, map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}})
			began := time.Now()
			chs := make([]<-chan reply[string], 0, 3)
			for _, k := range []string{"a", "b", "c"} {
				chs = append(chs, later(func() (string, error) { return c.Get(t.Context(), k) }))
			}
			cycles := 0
			for _, ch := range chs {
				if got := <-ch; errors.Is(got.err, cache.ErrCycle) {
					cycles++
				}
			}
			assert.True(t, cycles > 0, "no error: ")
			assert.True(t, time.Since(began) < 100*time.Millisecond, "took ", time.Since(began), ": ")
		})
	}
}

func TestCycleThroughTwoCachesIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b *cache.Cache[string, int]
		a = open(t, cache.Options[string, int]{Name: "a", TTL: time.Minute, Load: func(ctx context.Context, k string) (int, error) { return b.Get(ctx, k) }})
		b = open(t, cache.Options[string, int]{Name: "b", TTL: time.Minute, Load: func(ctx context.Context, k string) (int, error) { return a.Get(ctx, k) }})
		began := time.Now()
		fails[int](t, cache.ErrCycle)(a.Get(t.Context(), "k"))
		assert.Equal(t, time.Since(began), 0)
	})
}

// A refresh waits for nobody's load: it is no part of a circle.
func TestRefreshBehindAnAnswerToALoaderIsNoCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		var c *cache.Cache[string, int]
		c = open(t, cache.Options[string, int]{
			TTL: time.Second, StaleWhileRevalidate: time.Second, Jitter: off,
			Load: func(ctx context.Context, k string) (int, error) {
				if k == "outer" {
					return c.Get(ctx, "inner")
				}
				return src.Load(ctx, k)
			},
		})
		is(t, 1)(c.Get(t.Context(), "inner"))
		time.Sleep(1500 * time.Millisecond)
		is(t, 1)(c.Get(t.Context(), "outer")) // a stale inner value, which is refreshed behind
		settle()
		is(t, 2)(c.Get(t.Context(), "inner"))
	})
}

// The load of outer asks for a refresh of inner and does not wait for it; the load of inner then waits for outer's.
func TestRefreshMayWaitForTheLoadThatAskedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *cache.Cache[string, int]
		first := true
		c = open(t, cache.Options[string, int]{
			TTL: time.Second, StaleWhileRevalidate: time.Second, Jitter: off,
			Load: func(ctx context.Context, k string) (int, error) {
				if first {
					first = false
					return 1, nil
				}
				if k == "inner" {
					return c.Get(ctx, "outer")
				}
				v, err := c.Get(ctx, "inner")
				if err != nil {
					return 0, err
				}
				return v + 1, rest(ctx, 100*time.Millisecond)
			},
		})
		is(t, 1)(c.Get(t.Context(), "inner"))
		time.Sleep(1500 * time.Millisecond)
		is(t, 2)(c.Get(t.Context(), "outer"))
		settle()
		assert.Equal(t, c.Stats().LoadErrors, 0)
		is(t, 2)(c.Get(t.Context(), "inner"))
	})
}
