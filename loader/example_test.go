package loader_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/loader"
)

// A loader says that a key does not exist, and how long its value may live.
func ExampleFunc() {
	prices := map[string]int{"apple": 3}
	var load loader.Func[string, int] = func(ctx context.Context, key string) (int, error) {
		price, ok := prices[key]
		if !ok {
			return 0, fmt.Errorf("price of a fruit: %w", loader.ErrNotFound)
		}
		loader.TTL(ctx, time.Minute)
		return price, nil
	}
	ctx, hints := loader.WithHints(context.Background()) // caches do this
	fmt.Println(load(ctx, "apple"))
	fmt.Println(hints.TTL())
	_, err := load(ctx, "pear")
	fmt.Println(loader.IsNotFound(err), errors.Is(err, sql.ErrNoRows))
	// Output:
	// 3 <nil>
	// 1m0s
	// true true
}

// Middleware goes around a loader, the first one outermost.
func ExampleWrap() {
	named := func(name string) loader.Middleware[int, string] {
		return func(next loader.Func[int, string]) loader.Func[int, string] {
			return func(ctx context.Context, key int) (string, error) {
				fmt.Println("into", name)
				return next(ctx, key)
			}
		}
	}
	load := loader.Wrap(func(_ context.Context, key int) (string, error) {
		return fmt.Sprint("user ", key), nil
	}, named("tracing"), named("limits"))
	fmt.Println(load(context.Background(), 42))
	// Output:
	// into tracing
	// into limits
	// user 42 <nil>
}

// A value that must not be kept goes to its callers only.
func ExampleNoStore() {
	ctx, hints := loader.WithHints(context.Background())
	loader.NoStore(ctx)
	fmt.Println(hints.NoStore())
	// Output: true
}
