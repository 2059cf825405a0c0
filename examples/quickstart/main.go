// Command quickstart reads users through a cache: from memory, then Redis, then MySQL.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/tiers"
)

type user struct {
	ID   int64
	Name string
}

func main() {
	ctx := context.Background()
	dsn, redisAddr := servers() // yours, or simulated ones

	guard, err := dbguard.Open(dsn, dbguard.Options{Name: "users-db", MaxConcurrent: 8}) // never more than 8 statements at once
	check(err)
	defer guard.Close(ctx)
	remote, err := tiers.NewRedis(redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{redisAddr}, ContextTimeoutEnabled: true, MaxRetries: -1}), tiers.RedisOptions{Prefix: "quickstart"})
	check(err)
	defer remote.Close(ctx)
	users, err := cache.New(cache.Options[int64, user]{
		Name:   "users",
		Remote: remote,
		TTL:    10 * time.Minute,
		Load: dbguard.QueryRow[int64](guard.DB(), "SELECT id, name FROM users WHERE id = ?", func(row dbguard.Scanner) (u user, err error) {
			return u, row.Scan(&u.ID, &u.Name)
		}),
	})
	check(err)
	defer users.Close(ctx)

	for range 3 {
		u, err := users.Get(ctx, 42) // instead of SELECT …
		check(err)
		fmt.Println(u.Name)
	}
	check(users.Invalidate(ctx, 42)) // after an UPDATE was committed
	fmt.Printf("%d answers from the cache, %d load\n", users.Stats().Fresh, users.Stats().Loads)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
