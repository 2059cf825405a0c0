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
	done   func()
}

func openSnowshed(_ context.Context, cfg config, db database) (subject, error) {
	return newSnowshed(cfg, db, cache.Options[int64, article]{Name: "articles"})
}

// openStrict is for values that must never be answered past their TTL, and that all expire at once: what the guard
// alone can do.
func openStrict(_ context.Context, cfg config, db database) (subject, error) {
	return newSnowshed(cfg, db, cache.Options[int64, article]{
		Name: "strict", Jitter: -1, StaleWhileRevalidate: -1, StaleIfError: -1,
	})
}

func newSnowshed(cfg config, db database, o cache.Options[int64, article]) (s *snowshed, err error) {
	s = &snowshed{keys: cfg.keys, fillBy: cfg.workers}
	if s.rdb, s.done, err = openRedis(cfg); err != nil {
		return nil, err
	}
	s.guard, err = dbguard.Open(db.DSN(), dbguard.Options{
		Name: "articles-db", MaxConcurrent: cfg.workers, MaxQueue: cfg.workers, MaxWait: 30 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	if s.local, err = tiers.NewLocal(tiers.LocalOptions{}); err != nil {
		return nil, err
	}
	if s.remote, err = tiers.NewRedis(s.rdb, tiers.RedisOptions{Prefix: "avalanche"}); err != nil {
		return nil, err
	}
	o.Load = dbguard.QueryRow[int64](s.guard.DB(), db.Query(), func(row dbguard.Scanner) (article, error) { return scanArticle(row) })
	o.TTL, o.Local, o.Remote, o.Refreshers = cfg.ttl, s.local, s.remote, cfg.workers
	s.cache, err = cache.New(o)
	return s, err
}

func (s *snowshed) Get(ctx context.Context, id int64) (hit, stale bool, err error) {
	a, err := s.cache.Lookup(ctx, id, cache.Read{})
	return a.Source != cache.FromLoad, a.Stale, err
}

// Fill reads all keys, as many at once as the database bears.
func (s *snowshed) Fill(ctx context.Context) (time.Time, error) {
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, s.fillBy)
	for w := range s.fillBy {
		wg.Go(func() {
			for id := w; id < s.keys; id += s.fillBy {
				if _, err := s.cache.Refresh(ctx, int64(id)); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return began, errors.Join(errs...)
}

func (s *snowshed) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	ids := make([]int64, s.keys)
	for i := range ids {
		ids[i] = int64(i)
	}
	err := errors.Join(
		s.cache.Invalidate(ctx, ids...),
		s.cache.Close(ctx), s.remote.Close(ctx), s.local.Close(ctx), s.guard.Close(ctx), s.rdb.Close(),
	)
	s.done()
	return err
}
