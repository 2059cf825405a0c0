package tiers_test

import (
	"context"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/tiers"
)

// A fill takes the key's epoch before its load begins, and is refused if an invalidation came meanwhile.
func ExampleLocalView() {
	local, err := tiers.NewLocal(tiers.LocalOptions{MaxBytes: 16 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close(context.Background())
	users, err := tiers.NewLocalView[int, string](local, tiers.LocalViewOptions[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	load := func(name string) *tiers.Entry[int, string] {
		now := local.Now()
		end := now + int64(time.Minute)
		return &tiers.Entry[int, string]{
			Key: 42, Value: name, Start: now, EarlyFrom: end, Expires: end, CheckBy: end, StaleUntil: end, ErrorUntil: end,
		}
	}

	at := users.Epoch(42)
	fmt.Println("stored:", users.Put(load("Ada"), at))
	fmt.Println("fresh:", users.Fresh(42).Value)

	at = users.Epoch(42)
	overtaken := load("Ada")
	users.Invalidate(42)
	fmt.Println("stored:", users.Put(overtaken, at))
	fmt.Println("found:", users.Get(42) != nil)
	// Output:
	// stored: true
	// fresh: Ada
	// stored: false
	// found: false
}
