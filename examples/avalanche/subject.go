package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// article is what requests ask for.
type article struct {
	ID    int64
	Title string
	Body  string
}

// errAbsent says that there is no such article.
var errAbsent = errors.New("no such article")

// A subject is a way to read articles, under test.
type subject interface {
	// Fill caches all articles at one moment, and returns a time just before it.
	Fill(ctx context.Context) (time.Time, error)
	// Get answers a request. stale says that the answer was past its TTL, hit that no load was waited for.
	Get(ctx context.Context, id int64) (hit, stale bool, err error)
	Close(ctx context.Context) error
}

// subjects are those that scenarios compare.
var subjects = map[string]func(setup, redis.UniversalClient) (subject, error){
	"naive":           openNaive,
	"snowshed":        openSnowshed,
	"snowshed-strict": openStrict,
}

func open(s setup) (subject, error) {
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Redis, IsClusterMode: len(s.Redis) > 1, ContextTimeoutEnabled: true,
	})
	sub, err := subjects[s.Subject](s, rdb)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.Subject, err), rdb.Close())
	}
	return sub, nil
}
