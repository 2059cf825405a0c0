package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/protection"
)

type user struct{ Name string }

// table stands for a table of a database.
var table = map[int]user{42: {"Ada"}}

func loadUser(_ context.Context, id int) (user, error) {
	u, ok := table[id]
	if !ok {
		return user{}, cache.ErrNotFound
	}
	return u, nil
}

func Example() {
	ctx := context.Background()
	users, err := cache.New(cache.Options[int, user]{Name: "users", Load: loadUser, TTL: 10 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	u, err := users.Get(ctx, 42)
	fmt.Println(u.Name, err)
	// Output: Ada <nil>
}

func ExampleCache_Lookup() {
	ctx := context.Background()
	users, err := cache.New(cache.Options[int, user]{Name: "users", Load: loadUser, TTL: 10 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	_, err = users.Lookup(ctx, 42, cache.Read{NoLoad: true})
	fmt.Println(errors.Is(err, cache.ErrNotCached))
	for range 2 {
		a, err := users.Lookup(ctx, 42, cache.Read{MaxAge: time.Minute})
		fmt.Println(a.Value.Name, a.Source, a.Stale, err)
	}
	// Output:
	// true
	// Ada load false <nil>
	// Ada memory false <nil>
}

func ExampleCache_Invalidate() {
	ctx := context.Background()
	stock := 3
	stocks, err := cache.New(cache.Options[string, int]{
		Name: "stocks", TTL: time.Hour,
		Load: func(context.Context, string) (int, error) { return stock, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stocks.Close(ctx)

	fmt.Println(stocks.Get(ctx, "skis"))
	stock = 2 // and COMMIT
	fmt.Println(stocks.Invalidate(ctx, "skis"))
	fmt.Println(stocks.Get(ctx, "skis"))
	// Output:
	// 3 <nil>
	// <nil>
	// 2 <nil>
}

func ExampleCache_Refresh() {
	ctx := context.Background()
	price := 100
	prices, err := cache.New(cache.Options[string, int]{
		Name: "prices", TTL: time.Hour,
		Load: func(context.Context, string) (int, error) { return price, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prices.Close(ctx)

	fmt.Println(prices.Get(ctx, "skis"))
	price = 120
	fmt.Println(prices.Refresh(ctx, "skis"))
	fmt.Println(prices.Get(ctx, "skis"))
	// Output:
	// 100 <nil>
	// 120 <nil>
	// 120 <nil>
}

// A loader decides for each value how long it lives, and whether it is stored at all.
func Example_perValueTTL() {
	ctx := context.Background()
	loads := 0
	tokens, err := cache.New(cache.Options[string, string]{
		Name: "tokens", TTL: time.Hour,
		Load: func(ctx context.Context, who string) (string, error) {
			loads++
			if who == "guest" {
				loader.NoStore(ctx)
			} else {
				loader.TTL(ctx, 5*time.Minute)
			}
			return "token of " + who, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close(ctx)

	for _, who := range []string{"ada", "ada", "guest", "guest"} {
		v, err := tokens.Get(ctx, who)
		fmt.Println(v, err, loads)
	}
	// Output:
	// token of ada <nil> 1
	// token of ada <nil> 1
	// token of guest <nil> 2
	// token of guest <nil> 3
}

// That the source does not have a key is remembered too.
func Example_negativeCaching() {
	ctx := context.Background()
	users, err := cache.New(cache.Options[int, user]{
		Name: "users", Load: loadUser, TTL: time.Hour, NegativeTTL: time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	for range 3 {
		_, err := users.Get(ctx, 7)
		fmt.Println(err, errors.Is(err, cache.ErrNotFound))
	}
	fmt.Println("loads:", users.Stats().Loads)
	// Output:
	// snowshed: not found true
	// snowshed: not found true
	// snowshed: not found true
	// loads: 1
}

// While its load fails, a value past its TTL is still answered, and says that it is stale.
func Example_staleIfError() {
	ctx := context.Background()
	down := false
	rates, err := cache.New(cache.Options[string, float64]{
		Name: "rates", TTL: 10 * time.Millisecond, StaleIfError: time.Hour,
		Load: func(context.Context, string) (float64, error) {
			if down {
				return 0, errors.New("the source is down")
			}
			return 1.1, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rates.Close(ctx)

	fmt.Println(rates.Get(ctx, "EUR"))
	down = true
	time.Sleep(20 * time.Millisecond)
	a, err := rates.Lookup(ctx, "EUR", cache.Read{})
	fmt.Println(a.Value, a.Stale, err)
	// Output:
	// 1.1 <nil>
	// 1.1 true <nil>
}

func ExampleCache_Stats() {
	ctx := context.Background()
	users, err := cache.New(cache.Options[int, user]{Name: "users", Load: loadUser, TTL: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	for range 5 {
		users.Get(ctx, 42)
	}
	s := users.Stats()
	fmt.Println("loaded:", s.Loaded, "fresh:", s.Fresh, "loads:", s.Loads)
	// Output: loaded: 1 fresh: 4 loads: 1
}

// With Clone every caller gets a value of its own, free to change.
func Example_clone() {
	ctx := context.Background()
	tags, err := cache.New(cache.Options[string, []string]{
		Name: "tags", TTL: time.Hour, Clone: slices.Clone[[]string],
		Load: func(context.Context, string) ([]string, error) { return []string{"red", "blue"}, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tags.Close(ctx)

	mine, err := tags.Get(ctx, "skis")
	if err != nil {
		fmt.Println(err)
		return
	}
	mine[0] = "green"
	fmt.Println(tags.Get(ctx, "skis"))
	// Output: [red blue] <nil>
}

// A guard admits or refuses each load. Hits do not ask it.
func Example_guard() {
	ctx := context.Background()
	bucket, err := protection.NewTokenBucket(protection.TokenBucketOptions{Name: "users-db", Rate: 0.001, Burst: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	table := func(_ context.Context, id int) (string, error) { return fmt.Sprint("user ", id), nil }
	users, err := cache.New(cache.Options[int, string]{Name: "users", Load: table, TTL: time.Hour, Guard: bucket})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	fmt.Println(users.Get(ctx, 1))
	fmt.Println(users.Get(ctx, 1))
	_, err = users.Get(ctx, 2)
	fmt.Println(errors.Is(err, protection.ErrRejected), errors.Is(err, protection.ErrLimited))
	// Output:
	// user 1 <nil>
	// user 1 <nil>
	// true true
}
