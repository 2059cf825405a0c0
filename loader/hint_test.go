package loader_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/loader"
)

func TestHints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say     func(context.Context)
		ttl     time.Duration
		noStore bool
	}{
		"nothing":              {func(context.Context) {}, 0, false},
		"a TTL":                {func(ctx context.Context) { loader.TTL(ctx, time.Minute) }, time.Minute, false},
		"the shortest TTL":     {func(ctx context.Context) { loader.TTL(ctx, time.Millisecond) }, time.Millisecond, false},
		"a TTL too short":      {func(ctx context.Context) { loader.TTL(ctx, time.Millisecond-1) }, 0, true},
		"no TTL":               {func(ctx context.Context) { loader.TTL(ctx, 0) }, 0, true},
		"a negative TTL":       {func(ctx context.Context) { loader.TTL(ctx, -time.Hour) }, 0, true},
		"no store":             {loader.NoStore, 0, true},
		"two TTLs, last wins":  {func(ctx context.Context) { loader.TTL(ctx, time.Hour); loader.TTL(ctx, time.Second) }, time.Second, false},
		"a TTL, then no store": {func(ctx context.Context) { loader.TTL(ctx, time.Hour); loader.NoStore(ctx) }, time.Hour, true},
		"no store, then a TTL": {func(ctx context.Context) { loader.NoStore(ctx); loader.TTL(ctx, time.Hour) }, time.Hour, true},
	} {
		ctx, hints := loader.WithHints(t.Context())
		c.say(ctx)
		assert.Equal(t, hints.TTL(), c.ttl, name)
		assert.Equal(t, hints.NoStore(), c.noStore, name)
	}
}

func TestHintsOutsideOfALoadDoNothing(t *testing.T) {
	t.Parallel()
	loader.TTL(t.Context(), time.Minute)
	loader.NoStore(t.Context())
}

// A loader of a loader speaks of its own value only.
func TestHintsOfANestedLoadStayThere(t *testing.T) {
	t.Parallel()
	outer, outerHints := loader.WithHints(t.Context())
	inner, innerHints := loader.WithHints(outer)
	loader.NoStore(inner)
	loader.TTL(outer, time.Minute)
	assert.True(t, innerHints.NoStore() && !outerHints.NoStore())
	assert.Equal(t, innerHints.TTL(), time.Duration(0))
	assert.Equal(t, outerHints.TTL(), time.Minute)
}

func TestHintsFromSeveralGoroutines(t *testing.T) {
	t.Parallel()
	ctx, hints := loader.WithHints(t.Context())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 1000 {
				loader.TTL(ctx, time.Duration(i+1)*time.Second)
				_ = hints.TTL()
				_ = hints.NoStore()
			}
			if i == 7 {
				loader.NoStore(ctx)
			}
		})
	}
	wg.Wait()
	assert.True(t, hints.NoStore())
	assert.True(t, hints.TTL() >= time.Second && hints.TTL() <= 16*time.Second && hints.TTL()%time.Second == 0, hints.TTL())
}
