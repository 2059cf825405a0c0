package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
)

// Stale answers cover a source that is down: the gauge shrinks, and the alarm comes before the stock is gone.
func TestRunwayShrinksAndAlarmsBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, seen := &source{}, &events{}
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, StaleIfError: 100 * time.Second, StaleWhileRevalidate: off, Jitter: off, Observer: seen,
		})
		is(t, 1)(c.Get(t.Context(), "a"))
		assert.Equal(t, c.Stats().Runway, 0)
		src.fails()
		time.Sleep(10 * time.Second)
		last, alarmed := 101*time.Second, time.Duration(0)
		for range 99 {
			is(t, 1)(c.Get(t.Context(), "a"))
			left := c.Stats().Runway
			assert.True(t, left < last, "the runway was ", last, " and is ", left, ": ")
			last = left
			if alarmed == 0 && seen.count(observe.Alarm) > 0 {
				alarmed = left
			}
			time.Sleep(time.Second)
		}
		assert.True(t, alarmed > 20*time.Second && alarmed < 25*time.Second, "alarmed with ", alarmed, " left: ")
		assert.Equal(t, seen.count(observe.Alarm), 1)
		time.Sleep(20 * time.Second)
		assert.Equal(t, c.Stats().Runway, 0) // no stale answers of late
	})
}

// One load in eight succeeds: values with the least life left set the gauge.
func TestRunwayOfASourceThatSucceedsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, broken := &events{}, false
		loads := 0
		c := open(t, cache.Options[int, int]{
			TTL: time.Second, StaleIfError: 20 * time.Second, StaleWhileRevalidate: off, Observer: seen, RetryBackoff: 500 * time.Millisecond,
			Load: func(_ context.Context, k int) (int, error) {
				loads++
				if broken && loads%8 != 0 {
					return 0, errSource
				}
				return k, nil
			},
		})
		const keys = 40
		for k := range keys {
			is(t, k)(c.Get(t.Context(), k))
		}
		broken = true
		failed := 0
		for i := 0; failed == 0 && i < 3000; i++ {
			time.Sleep(100 * time.Millisecond)
			for k := range keys {
				if _, err := c.Get(t.Context(), k); err != nil && failed == 0 {
					failed = i
					assert.True(t, seen.count(observe.Alarm) > 0, "an answer failed before the alarm: ")
				}
			}
		}
	})
}
