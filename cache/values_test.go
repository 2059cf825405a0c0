package cache_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
)

// roundTrip reads v through the loader, from memory, and from Redis by another cache.
func roundTrip[V any](t *testing.T, name string, v V) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, loads := newWorld(t), 0
			o := cache.Options[string, V]{
				TTL: time.Minute, Remote: w.Redis,
				Load: func(context.Context, string) (V, error) { loads++; return v, nil },
			}
			a, b := open(t, o), open(t, o)
			for i, c := range []*cache.Cache[string, V]{a, a, b, b} {
				got, err := c.Lookup(t.Context(), "", cache.Read{}) // the empty key is a key
				assert.NoError(t, err)
				assert.Equal(t, got.Value, v)
				assert.Equal(t, got.Source, [...]cache.Source{cache.FromLoad, cache.FromMemory, cache.FromRedis, cache.FromMemory}[i])
			}
			assert.Equal(t, loads, 1)
		})
	})
}

type record struct {
	Name string
	Tags []string
	Meta map[string]int
	Next *record
}

func TestI11EmptyValuesAreThemselvesInBothTiers(t *testing.T) {
	roundTrip(t, "empty string", "")
	roundTrip(t, "zero int", 0)
	roundTrip(t, "false", false)
	roundTrip(t, "nil bytes", []byte(nil))
	roundTrip(t, "empty bytes", []byte{})
	roundTrip(t, "nil slice", []string(nil))
	roundTrip(t, "empty slice", []string{})
	roundTrip(t, "nil map", map[string]int(nil))
	roundTrip(t, "empty map", map[string]int{})
	roundTrip(t, "zero struct", record{})
	roundTrip(t, "typed nil pointer", (*record)(nil))
	roundTrip(t, "pointer to zero", &record{})
	roundTrip(t, "nil and empty inside", record{Tags: []string{}, Meta: nil, Next: &record{Meta: map[string]int{}}})
	roundTrip[any](t, "nil interface", nil)
	roundTrip(t, "like a marker", "*")
	roundTrip(t, "zero time", time.Time{})
	roundTrip(t, "UTC time", time.Date(2020, 2, 29, 1, 2, 3, 4, time.UTC))
}

// A nil pointer, a not-found and a key that was never asked for are three things.
func TestNilIsNotNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := cache.Options[string, *record]{
			TTL: time.Minute, Remote: newWorld(t).Redis,
			Load: func(_ context.Context, k string) (*record, error) {
				if k == "nil" {
					return nil, nil //nolint:nilnil // a value
				}
				return nil, cache.ErrNotFound
			},
		}
		a, b := open(t, o), open(t, o)
		for _, c := range []*cache.Cache[string, *record]{a, b} {
			is(t, (*record)(nil))(c.Get(t.Context(), "nil"))
			fails[*record](t, cache.ErrNotFound)(c.Get(t.Context(), "absent"))
			fails[cache.Answer[*record]](t, cache.ErrNotCached)(c.Lookup(t.Context(), "never", cache.Read{NoLoad: true}))
		}
		assert.Equal(t, a.Stats().Loads+b.Stats().Loads, 2)
	})
}

// Callers who change what they were given do not meet when Clone is set.
func TestCloneKeepsCallersApart(t *testing.T) {
	c := open(t, cache.Options[string, []int]{
		TTL: time.Minute, Clone: slices.Clone[[]int],
		Load: func(context.Context, string) ([]int, error) { return []int{1, 2, 3}, nil },
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				v, err := c.Get(t.Context(), "a")
				a, err2 := c.Lookup(t.Context(), "a", cache.Read{})
				if err != nil || err2 != nil || v[0] != 1 || a.Value[0] != 1 {
					t.Error("a changed value: ", v, a, err, err2)
				}
				v[0], a.Value[0] = 9, 9
			}
		})
	}
	wg.Wait()
	v, err := c.Refresh(t.Context(), "a")
	assert.NoError(t, err)
	v[0] = 9
	v, err = c.Get(t.Context(), "a")
	assert.NoError(t, err)
	assert.Equal(t, v[0], 1)
}

func TestCloneAppliesToWaitersAndStaleAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := false
		c := open(t, cache.Options[string, []int]{
			TTL: time.Second, StaleIfError: time.Minute, Clone: slices.Clone[[]int], Jitter: off,
			Load: func(ctx context.Context, _ string) ([]int, error) {
				if fail {
					return nil, errSource
				}
				return []int{1}, rest(ctx, time.Millisecond)
			},
		})
		get := func() ([]int, error) { return c.Get(t.Context(), "a") }
		first, second := later(get), later(get)
		for _, ch := range []<-chan reply[[]int]{first, second} {
			got := <-ch
			is(t, []int{1})(got.value, got.err)
			got.value[0] = 9
		}
		fail = true
		time.Sleep(1500 * time.Millisecond)
		for range 2 {
			v, err := get()
			is(t, []int{1})(v, err)
			v[0] = 9
		}
	})
}
