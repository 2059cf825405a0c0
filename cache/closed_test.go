package cache_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// allClosed checks that every method answers ErrClosed.
func allClosed(t *testing.T, c *cache.Cache[string, int]) {
	t.Helper()
	fails[int](t, cache.ErrClosed)(c.Get(t.Context(), "a"))
	fails[int](t, cache.ErrClosed)(c.Refresh(t.Context(), "a"))
	for _, r := range []cache.Read{{}, {NoLoad: true}, {MaxAge: time.Second}, {MaxAge: off}} {
		fails[cache.Answer[int]](t, cache.ErrClosed)(c.Lookup(t.Context(), "a", r))
	}
	assert.ErrorIs(t, c.Invalidate(t.Context(), "a"), cache.ErrClosed)
	assert.ErrorIs(t, c.Invalidate(t.Context()), cache.ErrClosed)
}

func TestClosedCacheAnswersErrClosedToEverything(t *testing.T) {
	for name, local := range map[string]bool{"own local tier": false, "given local tier": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := good()
				if local {
					o.Local = newLocal(t, roomy)
				}
				c, err := cache.New(o)
				assert.NoError(t, err)
				is(t, 1)(c.Get(t.Context(), "a"))
				assert.NoError(t, c.Close(t.Context()))
				assert.NoError(t, c.Close(t.Context()))
				allClosed(t, c)
				assert.Equal(t, c.Stats().Closed, 5)
				assert.Equal(t, c.Stats().Loaded, 1) // it works on a closed cache too
			})
		})
	}
}

func TestCloseWaitsForLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(time.Second))
		o := good()
		o.Load = src.Load
		c, err := cache.New(o)
		assert.NoError(t, err)
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		settle()
		began := time.Now()
		assert.NoError(t, c.Close(t.Context()))
		assert.Equal(t, time.Since(began), time.Second)
		got := <-reader
		is(t, 1)(got.value, got.err)
		allClosed(t, c)
	})
}

func TestCloseWhoseCtxEndsCancelsLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g := &source{}, newGuard(t, 1)
		src.takes.Store(int64(time.Hour))
		o := good()
		o.Load, o.LoadTimeout, o.Guard = src.Load, 2*time.Hour, g
		c, err := cache.New(o)
		assert.NoError(t, err)
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		queued := later(func() (int, error) { return c.Get(t.Context(), "b") })
		settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, c.Close(ctx), context.DeadlineExceeded)
		for _, ch := range []<-chan reply[int]{reader, queued} {
			got := <-ch
			fails[int](t, cache.ErrClosed)(got.value, got.err)
			assert.Equal(t, got.took, time.Second)
		}
		settle()
		assert.Equal(t, g.InFlight(), 0)
		assert.Equal(t, c.Stats().Loading, 0)
		allClosed(t, c)
	})
}

// A loader that takes no notice of the end of its ctx cannot bring its value into a cache that was closed over it.
func TestNothingIsAnsweredAfterCloseGaveUpOnALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, w := newPause(), newWorld(t)
		c, err := cache.New(cache.Options[string, int]{
			Name: "things", TTL: time.Minute, LoadTimeout: time.Hour, Local: newLocal(t, roomy), Remote: w.Redis,
			Load: func(context.Context, string) (int, error) { hung.stand(); return 1, nil },
		})
		assert.NoError(t, err)
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-hung.reached
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, c.Close(ctx), context.Canceled)
		got := <-reader
		fails[int](t, cache.ErrClosed)(got.value, got.err)
		hung.release()
		settle()
		allClosed(t, c)
	})
}

// mixed calls every method at random until the cache is closed.
func mixed(ctx context.Context, c *cache.Cache[string, int], calls int) {
	for range calls {
		key := string(rune('a' + rand.IntN(26)))
		switch rand.IntN(8) {
		case 0:
			_ = c.Invalidate(ctx, key, "z")
		case 1:
			_, _ = c.Refresh(ctx, key)
		case 2:
			_, _ = c.Lookup(ctx, key, cache.Read{NoLoad: true})
		case 3:
			_, _ = c.Lookup(ctx, key, cache.Read{MaxAge: time.Millisecond})
		case 4:
			short, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(200))*time.Microsecond)
			_, _ = c.Get(short, key)
			cancel()
		case 5:
			_ = c.Stats()
		default:
			_, _ = c.Get(ctx, key)
		}
	}
}

func TestI9CloseTwiceUnderMixedCalls(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 8
	}
	for round := range rounds {
		o := good()
		o.TTL = 2 * time.Millisecond
		o.Load = func(ctx context.Context, _ string) (int, error) {
			if rand.IntN(4) == 0 {
				return 0, errSource
			}
			if rand.IntN(2) == 0 {
				return 1, rest(ctx, time.Duration(rand.IntN(300))*time.Microsecond)
			}
			return 1, nil
		}
		g := newGuard(t, 8)
		o.Guard, o.Local = g, newLocal(t, roomy)
		c, err := cache.New(o)
		assert.NoError(t, err)
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() { mixed(t.Context(), c, 20) })
		}
		for i := range 2 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_ = rest(ctx, time.Duration(rand.IntN(2000))*time.Microsecond)
				if (round+i)%2 == 0 {
					cancel()
				}
				_ = c.Close(ctx)
				if _, err := c.Get(ctx, "a"); err != cache.ErrClosed { //nolint:errorlint // the very error
					t.Errorf("after Close: %v", err)
				}
			})
		}
		wg.Wait()
		assert.NoError(t, c.Close(t.Context()))
		allClosed(t, c)
		assert.Equal(t, g.InFlight(), 0)
		assert.Equal(t, c.Stats().Loading, 0)
	}
}

// slowGuard admits everything, but not at once, and takes no notice of ctx.
type slowGuard struct {
	*guard
	*pause
}

func (g slowGuard) Acquire(ctx context.Context) (protection.Permit, error) {
	g.stand()
	return g.guard.Acquire(context.WithoutCancel(ctx))
}

func TestNoLoaderStartsAfterCloseHasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g := &source{}, slowGuard{newGuard(t, 1), newPause()}
		o := good()
		o.Load, o.Guard, o.LoadTimeout, o.Local = src.Load, g, time.Hour, newLocal(t, roomy)
		c, err := cache.New(o)
		assert.NoError(t, err)
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-g.reached
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, c.Close(ctx), context.Canceled)
		g.release()
		got := <-reader
		fails[int](t, cache.ErrClosed)(got.value, got.err)
		assert.NoError(t, c.Close(t.Context()))
		assert.Equal(t, src.loads.Load(), 0)
		assert.Equal(t, g.InFlight(), 0)
		allClosed(t, c)
	})
}
