package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// article is what requests ask for.
type article struct {
	ID    int64
	Title string
	Body  string
}

// naive is the cache-aside that everybody writes: look in Redis, else ask the database and set it in Redis.
type naive struct {
	rdb   redis.UniversalClient
	db    *sql.DB
	query string
	ttl   time.Duration
	keys  int
	done  func()
}

func openNaive(_ context.Context, cfg config, db database) (subject, error) {
	rdb, done, err := openRedis(cfg)
	if err != nil {
		return nil, err
	}
	pool, err := sql.Open("mysql", db.DSN())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(100)
	pool.SetMaxIdleConns(100)
	return &naive{rdb: rdb, db: pool, query: db.Query(), ttl: cfg.ttl, keys: cfg.keys, done: done}, nil
}

func (n *naive) key(id int64) string { return fmt.Sprintf("avalanche:naive:%d", id) }

func (n *naive) Get(ctx context.Context, id int64) (hit, stale bool, err error) {
	var a article
	b, err := n.rdb.Get(ctx, n.key(id)).Bytes()
	if err == nil {
		return true, false, json.Unmarshal(b, &a)
	}
	if !errors.Is(err, redis.Nil) {
		return false, false, err
	}
	if a, err = n.load(ctx, id); err != nil {
		return false, false, err
	}
	if b, err = json.Marshal(a); err != nil {
		return false, false, err
	}
	return false, false, n.rdb.Set(ctx, n.key(id), b, n.ttl).Err()
}

func (n *naive) load(ctx context.Context, id int64) (article, error) {
	return scanArticle(n.db.QueryRowContext(ctx, n.query, id)) //nolint:gosec // the query is a constant of the database
}

// Fill sets all keys in one pipeline, with one TTL, as a batch job or a warm-up does.
func (n *naive) Fill(ctx context.Context) (time.Time, error) {
	values := make([][]byte, n.keys)
	for id := range values {
		a, err := n.load(ctx, int64(id))
		if err != nil {
			return time.Time{}, err
		}
		if values[id], err = json.Marshal(a); err != nil {
			return time.Time{}, err
		}
	}
	began := time.Now()
	_, err := n.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for id, b := range values {
			p.Set(ctx, n.key(int64(id)), b, n.ttl)
		}
		return nil
	})
	return began, err
}

func (n *naive) Close(ctx context.Context) error {
	for id := range int64(n.keys) {
		n.rdb.Del(context.WithoutCancel(ctx), n.key(id))
	}
	err := errors.Join(n.rdb.Close(), n.db.Close())
	n.done()
	return err
}

// openRedis connects to the servers of -redis, or to a miniredis of its own.
func openRedis(cfg config) (rdb redis.UniversalClient, done func(), err error) {
	if cfg.redis != "" {
		addrs := strings.Split(cfg.redis, ",")
		return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: len(addrs) > 1, ContextTimeoutEnabled: true}), func() {}, nil
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, nil, err
	}
	stop := expire(m)
	rdb = redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{m.Addr()}, ContextTimeoutEnabled: true})
	return rdb, func() { stop(); m.Close() }, nil
}

// expiryTick is how often a miniredis looks for keys whose TTL passed, so that they go up to so much too early or late.
// It can look at every command too, but sorts all of its keys to do so, which costs more than all the rest of the demo.
const expiryTick = 10 * time.Millisecond

// expire lets the time of a miniredis pass, until the returned function is called.
func expire(m *miniredis.Miniredis) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(expiryTick)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			now := time.Now()
			m.FastForward(now.Sub(last))
			last = now
		}
	}()
	return func() { close(quit); <-done }
}

func redisKind(cfg config) string {
	if cfg.redis != "" {
		return "real, at " + cfg.redis
	}
	return "miniredis in this process"
}
