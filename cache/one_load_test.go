package cache_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
)

func TestI1ConcurrentMissesMakeOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.takes.Store(int64(50 * time.Millisecond))
		c := open(t, cache.Options[string, int]{Load: src.Load, TTL: time.Minute})
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				v, err := c.Get(t.Context(), "a")
				if v != 1 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, src.loads.Load(), 1)
		assert.Equal(t, c.Stats().Loaded, 1000)
	})
}

// A reader that missed just before the value came boards a flight just after it: the value is there now.
func TestI1ReaderThatMissedBeforeTheFillDoesNotLoadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, late := &source{}, newPause()
		var calls atomic.Int64
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: time.Minute,
			Key: func(k string) string { // is asked between the look into memory and the flight
				if calls.Add(1) == 1 {
					late.stand()
				}
				return k
			},
		})
		reader := later(func() (int, error) { return c.Get(t.Context(), "a") })
		<-late.reached
		is(t, 1)(c.Get(t.Context(), "a"))
		late.release()
		got := <-reader
		is(t, 1)(got.value, got.err)
		assert.Equal(t, src.loads.Load(), 1)
	})
}

// Rounds of readers that arrive around the end of a flight.
func TestI1RoundsAroundTheEndOfAFlight(t *testing.T) {
	rounds := 200_000
	if testing.Short() || raceEnabled {
		rounds = 5_000
	}
	var loads atomic.Int64
	c := open(t, cache.Options[int, int]{
		TTL:  time.Hour,
		Load: func(_ context.Context, k int) (int, error) { loads.Add(1); return k, nil },
	})
	const readers = 4
	ctx := t.Context()
	var gate [readers]chan int
	var wg sync.WaitGroup
	done := make(chan struct{}, readers)
	for i := range gate {
		gate[i] = make(chan int, 1)
		wg.Go(func() {
			for k := range gate[i] {
				v, err := c.Get(ctx, k)
				if v != k || err != nil {
					t.Errorf("got %d, %v for %d", v, err, k)
				}
				done <- struct{}{}
			}
		})
	}
	for k := range rounds {
		for i := range gate {
			gate[i] <- k % 512
		}
		for range gate {
			<-done
		}
		if k%512 == 511 {
			for j := range 512 {
				if err := c.Invalidate(ctx, j); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for i := range gate {
		close(gate[i])
	}
	wg.Wait()
	assert.Equal(t, loads.Load(), int64(rounds))
}

func TestI1NoLoadWhileTheValueIsNotDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		o := cache.Options[string, int]{Load: src.Load, TTL: 10 * time.Second, Jitter: off, Remote: w.Redis}
		a, b := open(t, o), open(t, o)
		for range 99 {
			is(t, 1)(a.Get(t.Context(), "a"))
			is(t, 1)(b.Get(t.Context(), "a"))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, src.loads.Load(), 1)
	})
}

// The end of a local copy's own life is no reason to load: Redis has the value.
func TestI1EndOfLocalTTLAsksRedisAndNotTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		src.takes.Store(int64(3300 * time.Microsecond)) // Redis counts in whole milliseconds
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, LocalTTL: time.Second, Jitter: off, Beta: off, Remote: w.Redis,
		})
		for range 95 {
			got, err := c.Lookup(t.Context(), "a", cache.Read{})
			assert.NoError(t, err)
			assert.Equal(t, got.Value, 1)
			assert.Equal(t, got.Stale, false)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, src.loads.Load(), 1)
		redis := c.Stats().FromRedis
		assert.True(t, redis >= 8 && redis <= 10, "answers from Redis: ", redis, ": ")
	})
}

// LocalTTL bounds the copies of values too whose loader chose a longer life.
func TestLocalTTLBoundsCopiesOfLongerLivedValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, src := newWorld(t), &source{}
		c := open(t, cache.Options[string, int]{
			Load: longLived(src), TTL: time.Second, Jitter: off, Beta: off, Remote: w.Redis,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		time.Sleep(1500 * time.Millisecond)
		got, err := c.Lookup(t.Context(), "a", cache.Read{})
		assert.NoError(t, err)
		assert.Equal(t, got.Source, cache.FromRedis)
		assert.Equal(t, src.loads.Load(), 1)
	})
}
