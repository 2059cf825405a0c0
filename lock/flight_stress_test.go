package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/lock"
)

// gocache#242, otter#152: callers that come around the end of a flight. Its value is published before its place is free,
// so whoever finds the place free finds the value too, and no generation is worked for twice.
func TestCallersAroundTheEndOfAFlight(t *testing.T) {
	t.Parallel()
	const generations = 120_000
	f := lock.NewFlights[int64]()
	runs := make([]atomic.Int32, generations+1)
	var wanted, published atomic.Int64
	wanted.Store(1)
	work := func(context.Context) (int64, error) {
		g := wanted.Load()
		if published.Load() < g {
			runs[g].Add(1)
			published.Store(g)
		}
		return g, nil
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for g := wanted.Load(); g < generations; g = wanted.Load() {
				got := do(t.Context(), f, "k", work)
				if got.err != nil || got.v < g-1 || got.v == 0 {
					t.Errorf("got %+v in generation %d", got, g)
					return
				}
				wanted.CompareAndSwap(g, g+1)
			}
		})
	}
	wg.Wait()
	for g := range published.Load() {
		if n := runs[g].Load(); n > 1 {
			t.Errorf("generation %d was worked for %d times", g, n)
		}
	}
	assert.Equal(t, f.Running(), 0)
	assert.NoError(t, f.Close(t.Context()))
}

// Everything at once, with keys that meet, callers that leave and work that fails: each caller gets its own key's value.
func TestFlightsStress(t *testing.T) {
	t.Parallel()
	f := lock.NewFlights[string]()
	keys := []string{"a", "b", "c", "d"}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 3_000 {
				key := keys[(i+n)%len(keys)]
				ctx, cancel := context.WithCancel(t.Context())
				if n%3 == 0 {
					cancel()
				}
				got := do(ctx, f, key, func(context.Context) (string, error) {
					switch n % 10 {
					case 0:
						panic(key)
					case 1:
						return key, context.DeadlineExceeded
					}
					return key, nil
				})
				cancel()
				if got.err == nil && got.v != key {
					t.Errorf("key %s got %+v", key, got)
				}
				if n%5 == 0 {
					f.Forget(key)
				}
			}
		})
	}
	wg.Wait()
	assert.NoError(t, f.Close(t.Context()))
	assert.Equal(t, f.Running(), 0)
}
