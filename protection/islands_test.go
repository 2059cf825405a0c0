package protection_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func newIslands(t *testing.T, fallback string) *protection.Islands {
	t.Helper()
	s, err := protection.NewIslands(protection.IslandsOptions{
		Name: "shop", Default: fallback,
		Islands: []protection.IslandOptions{
			{Class: "core", Bulkhead: protection.BulkheadOptions{MaxConcurrent: 4}},
			{Class: "ads", Bulkhead: protection.BulkheadOptions{MaxConcurrent: 2}},
		},
	})
	assert.NoError(t, err)
	return s
}

func island(t *testing.T, s *protection.Islands, class string) protection.Policy {
	t.Helper()
	p, err := s.Isolate(class)
	assert.NoError(t, err)
	return p
}

func TestBurningIslandTakesNothingFromTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newIslands(t, "")
		ads := protection.WithClass(t.Context(), "ads")
		core := protection.WithClass(t.Context(), "core")
		var hung, refusals atomic.Int64
		for range 100 { // all hang
			go func() {
				err := protection.Do(ads, s, func(context.Context) error {
					hung.Add(1)
					advance(time.Hour)
					return errors.New("boom")
				})
				if errors.Is(err, protection.ErrFull) {
					refusals.Add(1)
				}
			}()
		}
		synctest.Wait()
		assert.Equal(t, []int64{hung.Load(), refusals.Load()}, []int64{2, 98})
		for range 4 {
			permit, err := s.Acquire(core)
			assert.NoError(t, err, "all of its slots are there")
			defer permit.Done(protection.Success)
		}
		_, err := s.Acquire(core)
		assert.Equal(t, assert.ErrorAs[*protection.RejectedError](t, err).Name, "shop/core")
		advance(2 * time.Hour)
	})
}

func TestIslandTripsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newIslands(t, "")
		calls(t, island(t, s, "ads"), 21, protection.Failure)
		refused(t, island(t, s, "ads"), protection.ErrOpen)
		calls(t, island(t, s, "core"), 21, protection.Success)
		_, breaker := s.Parts("ads")
		assert.Equal(t, breaker.State(), protection.Open)
		advance(5 * time.Second)
		calls(t, island(t, s, "ads"), 1, protection.Success)
		assert.Equal(t, s.Recoveries(), uint64(1))
	})
}

func TestIslandOfAnUnknownClass(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"", "news"} {
		ctx := protection.WithClass(t.Context(), class)
		strict := newIslands(t, "")
		_, err := strict.Acquire(ctx)
		assert.ErrorIs(t, err, protection.ErrNoIsland)
		assert.ErrorIs(t, err, protection.ErrRejected)
		_, err = strict.Isolate(class)
		assert.ErrorIs(t, err, protection.ErrNoIsland)

		lenient := newIslands(t, "ads")
		permit, err := lenient.Acquire(ctx)
		assert.NoError(t, err)
		ads, _ := lenient.Parts("ads")
		assert.Equal(t, ads.InFlight(), 1)
		permit.Done(protection.Success)
		none, _ := lenient.Parts(class)
		assert.True(t, none == nil)
	}
	assert.Equal(t, protection.Class(t.Context()), "")
	assert.Equal(t, protection.Class(protection.WithClass(t.Context(), "core")), "core")
}

func TestChainLooksAtTheIslandOfTheClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newIslands(t, "")
		calls(t, island(t, s, "ads"), 21, protection.Failure)
		queue := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: 1})
		held := acquire(t, queue)
		c := protection.Chain(queue, s)
		start := time.Now()
		_, err := c.Acquire(protection.WithClass(t.Context(), "ads"))
		assert.ErrorIs(t, err, protection.ErrOpen)
		_, err = c.Acquire(protection.WithClass(t.Context(), "news"))
		assert.ErrorIs(t, err, protection.ErrNoIsland)
		assert.Equal(t, time.Since(start), 0, "without queueing")
		held.Done(protection.Success)
		permit, err := c.Acquire(protection.WithClass(t.Context(), "core"))
		assert.NoError(t, err)
		permit.Done(protection.Success)
	})
}

func TestIslandInnerPolicyIsAsked(t *testing.T) {
	t.Parallel()
	s, err := protection.NewIslands(protection.IslandsOptions{Islands: []protection.IslandOptions{{
		Class: "core", Bulkhead: protection.BulkheadOptions{MaxConcurrent: 1}, Inner: executionTimeout(t, time.Second),
	}}})
	assert.NoError(t, err)
	permit := acquire(t, island(t, s, "core"))
	assert.Equal(t, permit.Limit(), time.Second)
}

func TestIslandsThatCannotBe(t *testing.T) {
	t.Parallel()
	one := protection.BulkheadOptions{MaxConcurrent: 1}
	for want, o := range map[string]protection.IslandsOptions{
		"Islands has 0":   {},
		"Islands has 257": {Islands: make([]protection.IslandOptions, 257)},
		"Islands[0].Class is \"\"": {Islands: []protection.IslandOptions{
			{Bulkhead: one},
		}},
		"Islands[1].Class is \"a\"": {Islands: []protection.IslandOptions{
			{Class: "a", Bulkhead: one}, {Class: "a", Bulkhead: one},
		}},
		"Islands[0]: protection: BulkheadOptions.MaxConcurrent": {Islands: []protection.IslandOptions{{Class: "a"}}},
		"Islands[0]: protection: BreakerOptions.Window": {Islands: []protection.IslandOptions{
			{Class: "a", Bulkhead: one, Breaker: protection.BreakerOptions{Window: -1}},
		}},
		"Default is \"b\"": {Default: "b", Islands: []protection.IslandOptions{{Class: "a", Bulkhead: one}}},
	} {
		_, err := protection.NewIslands(o)
		named(t, err, "IslandsOptions."+want)
	}
}
