package cache_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/tiers"
)

// unencodable opens a cache of values that its codec cannot encode and reads twice.
func unencodable[V any](t *testing.T, v V) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, seen := newWorld(t), &events{}
		loads := 0
		c := open(t, cache.Options[string, V]{
			TTL: time.Minute, Remote: w.Redis, Observer: seen,
			Load: func(context.Context, string) (V, error) { loads++; return v, nil },
		})
		for range 5 {
			_, err := c.Get(t.Context(), "a")
			assert.NoError(t, err)
		}
		assert.Equal(t, loads, 1)
		assert.Equal(t, c.Stats().StoreErrors, 1)
		assert.Equal(t, seen.count(observe.EncodeFailed), 1)
		assert.Equal(t, w.Stats().EncodeErrors, 1)
		assert.True(t, !w.holds("a"))
	})
}

func TestUnencodableValueIsServedCountedAndNotTriedAgain(t *testing.T) {
	t.Run("chan", func(t *testing.T) { unencodable(t, make(chan int)) })
	t.Run("func", func(t *testing.T) { unencodable(t, func() {}) })
	t.Run("NaN", func(t *testing.T) { unencodable(t, struct{ F float64 }{math.NaN()}) })
	t.Run("not UTF-8", func(t *testing.T) { unencodable(t, struct{ S string }{"\xff"}) })
}

// panicking is a codec of a user's.
type panicking struct{ tiers.Codec[string] }

func (panicking) ID() uint8                             { return 99 }
func (panicking) Encode([]byte, string) ([]byte, error) { panic("codec") }
func (panicking) Decode([]byte) (string, error)         { panic("codec") }

func TestPanicOfACodecIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, seen := newWorld(t), &events{}
		c := open(t, cache.Options[string, string]{
			TTL: time.Minute, Remote: w.Redis, Observer: seen, Codec: panicking{},
			Load: func(context.Context, string) (string, error) { return "v", nil },
		})
		is(t, "v")(c.Get(t.Context(), "a"))
		is(t, "v")(c.Get(t.Context(), "a"))
		assert.Equal(t, seen.count(observe.EncodeFailed), 1)
	})
}

// A value that Redis cannot keep takes the place of the older one all the same: that one must not come back.
func TestI4OlderValueDoesNotComeBackAfterOneThatRedisCannotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, seen := newWorldWith(t, tiers.RedisOptions{Timeout: time.Hour, MaxValueSize: 100}), &events{}
		values := []string{"old", strings.Repeat("x", 101)}
		loads := 0
		o := cache.Options[string, string]{
			TTL: time.Minute, Remote: w.Redis, Observer: seen,
			Load: func(context.Context, string) (string, error) { loads++; return values[loads-1], nil },
		}
		c := open(t, o)
		is(t, values[0])(c.Get(t.Context(), "a"))
		is(t, values[1])(c.Refresh(t.Context(), "a"))
		assert.True(t, !w.holds("a"), "the older value is in Redis: ")
		assert.Equal(t, seen.count(observe.TooLarge), 1)
		is(t, values[1])(c.Get(t.Context(), "a"))
		assert.Equal(t, c.Stats().StoreErrors, 1)
	})
}
