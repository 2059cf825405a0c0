package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// naive is the cache-aside that everybody writes: look in Redis, else ask the database and set it in Redis.
type naive struct {
	rdb   redis.UniversalClient
	db    *sql.DB
	query string
	ttl   time.Duration
	keys  int
}

func openNaive(s setup, rdb redis.UniversalClient) (subject, error) {
	pool, err := sql.Open("mysql", s.DSN)
	if err != nil {
		return nil, err
	}
	connections := max(100/s.Config.Processes, 2) // of a server that takes 151
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return &naive{rdb: rdb, db: pool, query: s.Query, ttl: s.Config.TTL, keys: s.Config.Keys}, nil
}

func (n *naive) key(id int64) string { return fmt.Sprintf("avalanche:naive:%d", id) }

func (n *naive) Get(ctx context.Context, id int64) (hit, stale bool, err error) {
	var a article
	b, err := n.rdb.Get(ctx, n.key(id)).Bytes()
	if err == nil {
		return true, false, json.Unmarshal(b, &a)
	}
	if !errors.Is(err, redis.Nil) && ctx.Err() != nil {
		return false, false, err
	}
	if a, err = n.load(ctx, id); err != nil {
		return false, false, err
	}
	if b, err = json.Marshal(a); err != nil {
		return false, false, err
	}
	if err := n.rdb.Set(ctx, n.key(id), b, n.ttl).Err(); err != nil && ctx.Err() != nil {
		return false, false, err // else the answer is there, whatever ails Redis
	}
	return false, false, nil
}

func (n *naive) load(ctx context.Context, id int64) (article, error) {
	a, err := scanArticle(n.db.QueryRowContext(ctx, n.query, id))
	if errors.Is(err, sql.ErrNoRows) {
		return a, errAbsent
	}
	return a, err
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
		n.rdb.Del(ctx, n.key(id))
	}
	return errors.Join(n.rdb.Close(), n.db.Close())
}
