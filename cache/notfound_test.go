package cache_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/loader"
)

func absent(context.Context, int) (int, error) { return 0, loader.ErrNotFound }

func TestWhatCountsAsNotFound(t *testing.T) {
	for _, tc := range []struct {
		name     string
		err      error
		notFound bool
	}{
		{"loader.ErrNotFound", loader.ErrNotFound, true},
		{"cache.ErrNotFound", cache.ErrNotFound, true},
		{"wrapped loader.ErrNotFound", fmt.Errorf("user: %w", loader.ErrNotFound), true},
		{"joined loader.ErrNotFound", errors.Join(errSource, loader.ErrNotFound), true},
		{"bare sql.ErrNoRows", sql.ErrNoRows, true},
		{"wrapped sql.ErrNoRows", fmt.Errorf("second query: %w", sql.ErrNoRows), false},
		{"joined sql.ErrNoRows", errors.Join(sql.ErrNoRows), false},
		{"another error", errSource, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{}
				src.does(func(context.Context, int) (int, error) { return 7, tc.err })
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, RetryBackoff: off})
				for range 3 {
					v, err := c.Get(t.Context(), "a")
					assert.Equal(t, v, 0, "a value beside an error")
					assert.Equal(t, errors.Is(err, cache.ErrNotFound), tc.notFound)
					assert.ErrorIs(t, err, map[bool]error{true: sql.ErrNoRows, false: tc.err}[tc.notFound])
				}
				s := c.Stats()
				if tc.notFound {
					assert.Equal(t, [...]uint64{s.Loads, s.LoadErrors, s.Loaded, s.Negative, s.Failed}, [...]uint64{1, 0, 1, 2, 0})
				} else {
					assert.Equal(t, [...]uint64{s.Loads, s.LoadErrors, s.Loaded, s.Negative, s.Failed}, [...]uint64{3, 3, 0, 0, 3})
				}
			})
		})
	}
}

func TestNotFoundLivesForNegativeTTLAndHasNoStaleWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		src.does(absent)
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: time.Minute, NegativeTTL: 2 * time.Second, Jitter: off, Remote: w.Redis,
			StaleWhileRevalidate: time.Minute, StaleIfError: time.Minute, RetryBackoff: off,
		})
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		time.Sleep(1990 * time.Millisecond)
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		assert.Equal(t, src.loads.Load(), 1)
		time.Sleep(10 * time.Millisecond)
		src.fails()
		fails[int](t, errSource)(c.Get(t.Context(), "a")) // not the stale not-found
		_, err := c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
		assert.ErrorIs(t, err, cache.ErrNotCached)
		assert.True(t, !w.holds("a"), "a not-found outlived its TTL in Redis: ")
	})
}

func TestNegativeTTLDefaultsAndOff(t *testing.T) {
	for _, tc := range []struct {
		name               string
		ttl, negative, end time.Duration
	}{
		{"30s of a long TTL", time.Hour, 0, 30 * time.Second},
		{"a short TTL", 4 * time.Second, 0, 4 * time.Second},
		{"off", time.Hour, off, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{}
				src.does(absent)
				c := open(t, cache.Options[string, int]{Load: src.Load, TTL: tc.ttl, NegativeTTL: tc.negative, Jitter: off})
				fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
				if tc.end > 0 {
					time.Sleep(tc.end - 10*time.Millisecond)
					fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
					assert.Equal(t, src.loads.Load(), 1)
					time.Sleep(10 * time.Millisecond)
				}
				fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
				assert.Equal(t, src.loads.Load(), 2)
			})
		})
	}
}

func TestLoaderChoosesTheTTLOfItsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.does(func(ctx context.Context, _ int) (int, error) {
			loader.TTL(ctx, 50*time.Second)
			return 0, loader.ErrNotFound
		})
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Jitter: off})
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		time.Sleep(49 * time.Second)
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		assert.Equal(t, src.loads.Load(), 1)
	})
}

func TestInvalidateClearsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		src.does(absent)
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute, Remote: w.Redis})
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		assert.True(t, w.holds("a"))
		src.does(nil)
		assert.NoError(t, c.Invalidate(t.Context(), "a"))
		is(t, 2)(c.Get(t.Context(), "a"))
	})
}

// A row that was deleted does not come back from the tiers because its not-found is not remembered.
func TestNotFoundThatIsNotRememberedStillReplacesTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, NegativeTTL: off, Jitter: off, Remote: w.Redis, RetryBackoff: off,
			StaleWhileRevalidate: 5 * time.Second, StaleIfError: time.Minute,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		src.does(absent)
		time.Sleep(16 * time.Second)
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		fails[int](t, cache.ErrNotFound)(c.Get(t.Context(), "a"))
		src.fails()
		fails[int](t, errSource)(c.Get(t.Context(), "a")) // and not the stale value of a row that is gone
		assert.True(t, !w.holds("a"), "the value is in Redis: ")
	})
}
