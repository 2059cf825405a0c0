package redislimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection/redislimit"
)

func TestOptionsThatCannotBeAreErrorsThatNameTheField(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	win := func(key string) redislimit.Window {
		return redislimit.Window{Key: key, Limit: 1, Length: time.Second}
	}
	windows := func(w ...redislimit.Window) redislimit.Options { return redislimit.Options{Windows: w} }
	for _, c := range []struct {
		o     redislimit.Options
		field string // empty: no error
	}{
		{windows(win("a")), ""},
		{windows(win("{a}1"), win("x{a}2"), win("{a}{b}")), ""},
		{redislimit.Options{}, "Options.Windows "},
		{windows(win("")), "Options.Windows[0].Key "},
		{windows(win("a"), win("b")), "Options.Windows[0].Key "},
		{windows(win("{a}1"), win("{b}1")), "Options.Windows[1].Key "},
		{windows(win("{a}1"), win("a")), "Options.Windows[1].Key "},
		{windows(win("{}1"), win("{}2")), "Options.Windows[0].Key "},
		{windows(win("{a1"), win("{a2")), "Options.Windows[0].Key "},
		{windows(win("{a}1"), win("{a}1")), "Options.Windows[1].Key "},
		{windows(redislimit.Window{Key: "a", Length: 1e9}), "Options.Windows[0].Limit "},
		{windows(redislimit.Window{Key: "a", Limit: -1, Length: 1e9}), "Options.Windows[0].Limit "},
		{windows(redislimit.Window{Key: "a", Limit: 1}), "Options.Windows[0].Length "},
		{windows(redislimit.Window{Key: "a", Limit: 1, Length: time.Millisecond + 1}), "Options.Windows[0].Length "},
		{windows(redislimit.Window{Key: "a", Limit: 1, Length: 1 << 62}), "Options.Windows[0].Length "},
		{redislimit.Options{Windows: []redislimit.Window{win("a")}, Timeout: -1}, "Options.Timeout "},
		{redislimit.Options{Windows: []redislimit.Window{win("a")}, WhenDown: 7}, "Options.WhenDown "},
	} {
		_, err := redislimit.New(rdb, c.o)
		if c.field == "" {
			assert.NoError(t, err)
			continue
		}
		assert.Error(t, err, c.field)
		assert.True(t, strings.Contains(err.Error(), c.field), err)
	}
	for _, none := range []redis.Scripter{nil, (*redis.Client)(nil)} {
		_, err := redislimit.New(none, windows(win("a")))
		assert.Error(t, err)
	}
}

func TestOptionsAreACopy(t *testing.T) {
	t.Parallel()
	r := newFake(t)
	mine := []redislimit.Window{{Key: "copy", Limit: 1, Length: time.Hour}}
	w := limit(t, r.client, redislimit.Options{Windows: mine})
	mine[0] = redislimit.Window{}
	assert.Equal(t, admitted(t, w, 3), 1)
}
