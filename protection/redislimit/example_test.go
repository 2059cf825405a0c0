package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/protection/redislimit"
)

// A tenant may send 100 requests a second and 1,000 a day, from all processes together; should Redis be gone, each process
// still holds it to 20 a second.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()

	fleet, err1 := redislimit.New(rdb, redislimit.Options{
		Name: "tenant-7",
		Windows: []redislimit.Window{
			{Key: "limit:{tenant-7}:second", Limit: 100, Length: time.Second},
			{Key: "limit:{tenant-7}:day", Limit: 1000, Length: 24 * time.Hour},
		},
		Sliding: true,
		Timeout: 5 * time.Second,
	})
	local, err2 := protection.NewTokenBucket(protection.TokenBucketOptions{Name: "tenant-7", Rate: 20})
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	err = protection.Do(context.Background(), protection.Chain(fleet, local), func(context.Context) error { return nil })
	fmt.Println(err, server.HGet("limit:{tenant-7}:day", "c"))
	// Output: <nil> 1
}
