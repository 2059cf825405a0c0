package tiers_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/tiers"
	"github.com/snowshed-go/snowshed/tiers/tierstest"
)

// localTier gives the local tier the face that the suite knows. What the cache does with a local entry (it looks at the
// times, and at ctx) is done here.
type localTier struct {
	local  *tiers.Local
	view   *tiers.LocalView[string, tierstest.Value]
	closed atomic.Bool
}

func (l *localTier) err(ctx context.Context) error {
	if l.closed.Load() {
		return tiers.ErrClosed
	}
	return ctx.Err()
}

func (l *localTier) Get(ctx context.Context, key string) (s tiers.Stored[tierstest.Value], err error) {
	if err := l.err(ctx); err != nil {
		return s, err
	}
	e := l.view.Fresh(key)
	if e == nil {
		e = l.view.Get(key)
	}
	now := l.local.Now()
	if e == nil || e.ErrorUntil <= now {
		return s, tiers.ErrMiss
	}
	return tiers.Stored[tierstest.Value]{
		Value: e.Value, NotFound: e.NotFound, LoadTime: e.LoadTime, Number: e.Number, Generation: e.Generation,
		Age: time.Duration(now - e.Start), TTL: time.Duration(e.Expires - e.Start), Life: time.Duration(e.ErrorUntil - e.Start),
	}, nil
}

func (l *localTier) Set(ctx context.Context, key string, s tiers.Stored[tierstest.Value]) error {
	if err := l.err(ctx); err != nil {
		return err
	}
	if s.Life-s.Age < time.Millisecond {
		return nil
	}
	start := l.local.Now() - int64(s.Age)
	end := start + int64(s.TTL)
	l.view.Put(&tiers.Entry[string, tierstest.Value]{
		Key: key, Value: s.Value, NotFound: s.NotFound, LoadTime: s.LoadTime, Number: s.Number, Generation: s.Generation,
		Start: start, EarlyFrom: end, Expires: end, CheckBy: end, StaleUntil: end, ErrorUntil: start + int64(s.Life),
	}, l.view.Epoch(key))
	return l.err(ctx)
}

func (l *localTier) Delete(ctx context.Context, keys ...string) error {
	if err := l.err(ctx); err != nil {
		return err
	}
	for _, k := range keys {
		l.view.Invalidate(k)
	}
	return nil
}

func (l *localTier) Close(ctx context.Context) error {
	l.closed.Store(true)
	return l.local.Close(ctx)
}

func TestLocalConformance(t *testing.T) {
	t.Parallel()
	tierstest.Run(t, tierstest.Env{
		Open: func(t *testing.T) tierstest.Tier {
			t.Helper()
			local, err := tiers.NewLocal(tiers.LocalOptions{MaxBytes: 32 << 20, EpochStripes: 1 << 16})
			assert.NoError(t, err)
			view, err := tiers.NewLocalView[string, tierstest.Value](local, tiers.LocalViewOptions[tierstest.Value]{})
			assert.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, local.Close(context.Background())) })
			return &localTier{local: local, view: view}
		},
		Sleep: func(d time.Duration) { <-time.NewTimer(d).C },
		In:    synctest.Test,
	})
}
