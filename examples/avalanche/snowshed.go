package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/tiers"
)

// snowshed is the same service over cache.Get.
type snowshed struct {
	cache  *cache.Cache[int64, article]
	local  *tiers.Local
	remote *tiers.Redis
	guard  *dbguard.Guard
	rdb    redis.UniversalClient
	keys   int
	fillBy int
}

func openSnowshed(s setup, rdb redis.UniversalClient) (subject, error) {
	return newSnowshed(s, rdb, cache.Options[int64, article]{Name: "articles", NegativeTTL: s.Config.NegativeTTL})
}

// openStrict is for values that must never be answered past their TTL, and that all expire at once: what the guard
// alone can do.
func openStrict(s setup, rdb redis.UniversalClient) (subject, error) {
	return newSnowshed(s, rdb, cache.Options[int64, article]{
		Name: "strict", Jitter: -1, StaleWhileRevalidate: -1, StaleIfError: -1,
	})
}

func newSnowshed(s setup, rdb redis.UniversalClient, o cache.Options[int64, article]) (_ *snowshed, err error) {
	n := &snowshed{rdb: rdb, keys: s.Config.Keys, fillBy: s.Workers}
	n.guard, err = dbguard.Open(s.DSN, dbguard.Options{
		Name: "articles-db", MaxConcurrent: s.Workers, MaxQueue: s.Workers, MaxWait: 30 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	if n.local, err = tiers.NewLocal(tiers.LocalOptions{}); err != nil {
		return nil, err
	}
	if n.remote, err = tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: "avalanche"}); err != nil {
		return nil, err
	}
	o.Load = dbguard.QueryRow[int64](n.guard.DB(), s.Query, func(row dbguard.Scanner) (article, error) { return scanArticle(row) })
	o.TTL, o.Local, o.Remote, o.Refreshers = s.Config.TTL, n.local, n.remote, s.Workers
	n.cache, err = cache.New(o)
	return n, err
}

func (n *snowshed) Get(ctx context.Context, id int64) (hit, stale bool, err error) {
	a, err := n.cache.Lookup(ctx, id, cache.Read{})
	if errors.Is(err, cache.ErrNotFound) {
		err = errAbsent
	}
	return a.Source != cache.FromLoad, a.Stale, err
}

// Fill reads all keys, as many at once as the database bears.
func (n *snowshed) Fill(ctx context.Context) (time.Time, error) {
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, n.fillBy)
	for w := range n.fillBy {
		wg.Go(func() {
			for id := w; id < n.keys; id += n.fillBy {
				if _, err := n.cache.Refresh(ctx, int64(id)); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return began, errors.Join(errs...)
}

func (n *snowshed) Close(ctx context.Context) error {
	ids := make([]int64, n.keys)
	for i := range ids {
		ids[i] = int64(i)
	}
	return errors.Join(
		n.cache.Invalidate(ctx, ids...),
		n.cache.Close(ctx), n.remote.Close(ctx), n.local.Close(ctx), n.guard.Close(ctx), n.rdb.Close(),
	)
}
