package cache_test

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/tiers"
)

type options = cache.Options[string, int]

func good() options {
	return options{Name: "things", TTL: time.Minute, Load: (&source{}).Load}
}

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	const tooLong = 51 * 365 * 24 * time.Hour
	type bad struct {
		field string
		set   func(*options)
	}
	cases := []bad{ //nolint:prealloc // a table
		{"Name", func(o *options) { o.Name = "" }},
		{"Load", func(o *options) { o.Load = nil }},
		{"TTL", func(o *options) { o.TTL = 0 }},
		{"TTL", func(o *options) { o.TTL = off }},
		{"TTL", func(o *options) { o.TTL = math.MinInt64 }},
		{"Jitter", func(o *options) { o.Jitter = 1 }},
		{"Jitter", func(o *options) { o.Jitter = 1.5 }},
		{"Jitter", func(o *options) { o.Jitter = math.NaN() }},
		{"Jitter", func(o *options) { o.Jitter = math.Inf(1) }},
		{"Beta", func(o *options) { o.Beta = math.NaN() }},
		{"Beta", func(o *options) { o.Beta = math.Inf(1) }},
		{"Beta", func(o *options) { o.Beta = math.Inf(-1) }},
		{"Refreshers", func(o *options) { o.Refreshers = -1 }},
		{"Refreshers", func(o *options) { o.Refreshers = math.MaxInt }},
		{"LocalTTL", func(o *options) { o.LocalTTL = off }},
		{"LocalTTL", func(o *options) { o.LocalTTL = time.Minute + 1 }},
		{"LoadTimeout", func(o *options) { o.LoadTimeout = off }},
		{"MaxRetryBackoff", func(o *options) { o.MaxRetryBackoff = off }},
		{"MaxRetryBackoff", func(o *options) { o.RetryBackoff, o.MaxRetryBackoff = 2*time.Second, time.Second }},
	}
	for field, at := range durations() {
		cases = append(cases,
			bad{field, func(o *options) { *at(o) = time.Millisecond - 1 }},
			bad{field, func(o *options) { *at(o) = 1 }},
			bad{field, func(o *options) { *at(o) = tooLong }},
			bad{field, func(o *options) { *at(o) = math.MaxInt64 }})
	}
	for _, tc := range cases {
		o := good()
		tc.set(&o)
		c, err := cache.New(o)
		assert.Error(t, err, tc.field, ": ", reflect.ValueOf(o).FieldByName(tc.field))
		assert.True(t, c == nil)
		assert.True(t, strings.Contains(err.Error(), "Options."+tc.field+" "), tc.field, " is not named by: ", err, ": ")
	}
}

func durations() map[string]func(*options) *time.Duration {
	return map[string]func(*options) *time.Duration{
		"TTL":                  func(o *options) *time.Duration { return &o.TTL },
		"NegativeTTL":          func(o *options) *time.Duration { return &o.NegativeTTL },
		"StaleWhileRevalidate": func(o *options) *time.Duration { return &o.StaleWhileRevalidate },
		"StaleIfError":         func(o *options) *time.Duration { return &o.StaleIfError },
		"LocalTTL":             func(o *options) *time.Duration { return &o.LocalTTL },
		"LoadTimeout":          func(o *options) *time.Duration { return &o.LoadTimeout },
		"SoftTimeout":          func(o *options) *time.Duration { return &o.SoftTimeout },
		"RetryBackoff":         func(o *options) *time.Duration { return &o.RetryBackoff },
		"MaxRetryBackoff":      func(o *options) *time.Duration { return &o.MaxRetryBackoff },
	}
}

func TestNewAcceptsTheBoundsAndEveryOff(t *testing.T) {
	const century = 50 * 365 * 24 * time.Hour
	for _, set := range []func(*options){
		func(o *options) { o.TTL = time.Millisecond },
		func(o *options) { o.TTL = century },
		func(o *options) {
			o.TTL, o.StaleIfError, o.StaleWhileRevalidate, o.NegativeTTL = century, century, century, century
			o.LoadTimeout, o.SoftTimeout, o.RetryBackoff, o.MaxRetryBackoff = century, century, century, century
		},
		func(o *options) {
			o.Jitter, o.NegativeTTL, o.StaleWhileRevalidate, o.StaleIfError, o.SoftTimeout, o.Beta, o.RetryBackoff = off, off, off, off, off, off, off
		},
		func(o *options) { o.Jitter, o.NegativeTTL = math.Inf(-1), math.MinInt64 },
		func(o *options) { o.Jitter, o.Beta = math.SmallestNonzeroFloat64, math.MaxFloat64 },
		func(o *options) { o.RetryBackoff = time.Hour }, // above the default of MaxRetryBackoff
	} {
		o := good()
		set(&o)
		c := open(t, o)
		is(t, 1)(c.Get(t.Context(), "a"))
		is(t, 1)(c.Get(t.Context(), "a"))
	}
}

func TestNewLeavesTheCallersOptionsAlone(t *testing.T) {
	o := good()
	before := o
	c, err := cache.New(o)
	assert.NoError(t, err)
	defer c.Close(context.Background())
	o.Load, before.Load = nil, nil // functions cannot be compared
	assert.Equal(t, o, before)
	is(t, 1)(c.Get(t.Context(), "a")) // and what the caller does with them later is nothing to the cache
}

type point struct{ X, Y int }

func TestKeyIsRequiredForTypesThatHaveNoText(t *testing.T) {
	load := func(context.Context, point) (int, error) { return 1, nil }
	_, err := cache.New(cache.Options[point, int]{Name: "things", TTL: time.Minute, Load: load})
	assert.Error(t, err)
	assert.True(t, strings.Contains(err.Error(), "Options.Key "), err, ": ")
	c := open(t, cache.Options[point, int]{TTL: time.Minute, Load: load, Key: func(p point) string { return string(rune(p.X)) + "," + string(rune(p.Y)) }})
	is(t, 1)(c.Get(t.Context(), point{1, 2}))
}

func TestKeysBasedOnStringsAndIntegersNeedNoKey(t *testing.T) {
	type id int16
	type name string
	for range 2 {
		is(t, 7)(open(t, cache.Options[id, int]{TTL: time.Minute, Load: func(context.Context, id) (int, error) { return 7, nil }}).Get(t.Context(), -3))
		is(t, 7)(open(t, cache.Options[name, int]{TTL: time.Minute, Load: func(context.Context, name) (int, error) { return 7, nil }}).Get(t.Context(), ""))
	}
}

func TestNameThatRedisKeysCannotHoldIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := good()
		o.Name, o.Remote = "my things{}", newWorld(t).Redis
		_, err := cache.New(o)
		assert.Error(t, err)
		assert.True(t, strings.Contains(err.Error(), "Name"), err, ": ")
	})
}

// What Redis needs to know is named as the option of the cache that it is.
func TestNewNamesTheFieldThatRedisCannotTake(t *testing.T) {
	type hidden struct{ id int }
	synctest.Test(t, func(t *testing.T) {
		remote := newWorld(t).Redis
		_, err := cache.New(cache.Options[string, hidden]{
			Name: "things", TTL: time.Minute, Remote: remote,
			Load: func(context.Context, string) (hidden, error) { return hidden{1}, nil },
		})
		assert.Error(t, err)
		assert.True(t, strings.HasPrefix(err.Error(), `cache "things": Options.Codec must be one of your own: JSON keeps nothing of cache_test.hidden, `), err)
		o := good()
		o.Name, o.Remote = "my things", remote
		_, err = cache.New(o)
		assert.Error(t, err)
		assert.True(t, strings.HasPrefix(err.Error(), `cache "my things": Options.Name contains ' ': `), err)
	})
}

func TestMalformedRedisAddressIsNamed(t *testing.T) {
	for _, addr := range []string{"redis://host:6379", "host", "host:port:6379", "host:0", "host:99999"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		_, err := tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: "test"})
		assert.Error(t, err, addr)
		assert.True(t, strings.Contains(err.Error(), addr), "not named by: ", err, ": ")
		assert.NoError(t, rdb.Close())
	}
}

// New dials nobody: with a server that does not exist it returns at once, and Gets work.
func TestNewSucceedsWithoutRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true})
	defer rdb.Close()
	remote, err := tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: "test"})
	assert.NoError(t, err)
	defer remote.Close(context.Background())
	o := good()
	o.Remote = remote
	began := time.Now()
	c := open(t, o)
	is(t, 1)(c.Get(t.Context(), "a"))
	is(t, 1)(c.Get(t.Context(), "a"))
	assert.True(t, time.Since(began) < 2*time.Second, "took ", time.Since(began), ": ")
}
