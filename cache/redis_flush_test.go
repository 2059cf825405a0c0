package cache_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/tiers"
)

// rueidis#372: who waits for a value that is flushed again and again must not ask Redis again and again.
func TestRedisThatIsFlushedWhileManyWaitIsAskedOnce(t *testing.T) {
	const callers, flushes = 100, 50
	rdb := redis.NewClient(&redis.Options{Addr: testutil.OwnRedis(t), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	remote, err := tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: t.Name(), Timeout: 10 * time.Second})
	assert.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remote.Close(context.Background())) })
	loading, finish := make(chan struct{}), make(chan struct{})
	c := open(t, cache.Options[string, int]{
		Remote: remote, TTL: time.Minute,
		Load: func(context.Context, string) (int, error) {
			close(loading)
			<-finish
			return 7, nil
		},
	})

	assert.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() { is(t, 7)(c.Get(t.Context(), "a")) })
	}
	<-loading
	for range flushes {
		assert.NoError(t, rdb.FlushAll(t.Context()).Err())
	}
	close(finish)
	wg.Wait()
	assert.True(t, served(t, rdb) <= 4, "PTTL, GET and SET are enough: ")
	is(t, 7)(c.Get(t.Context(), "a"))
}

// served returns how many commands on keys a server has run since its figures were reset.
func served(t *testing.T, rdb *redis.Client) (n int) {
	t.Helper()
	text, err := rdb.Info(t.Context(), "commandstats").Result()
	assert.NoError(t, err)
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		switch name {
		case "get", "set", "pttl", "unlink", "evalsha", "eval":
			calls, _, _ := strings.Cut(rest, ",")
			i, err := strconv.Atoi(calls)
			assert.NoError(t, err)
			n += i
		}
	}
	return n
}
