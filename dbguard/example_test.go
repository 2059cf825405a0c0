package dbguard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/protection"
)

type User struct {
	ID   int64
	Name string
}

func scanUser(row dbguard.Scanner) (u User, err error) {
	err = row.Scan(&u.ID, &u.Name)
	return u, err
}

func Example() {
	server, err := mysqltest.New(mysqltest.Options{InMemory: true}) // stands for your MySQL
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	server.Table("users", "id", "name").Set(42, "Ada")

	ctx := context.Background()
	guard, err := dbguard.Open(server.DSN(), dbguard.Options{Name: "users-db", MaxConcurrent: 64, QPS: 2000, Dial: server.DialFunc})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close(ctx)

	load := dbguard.QueryRow[int64](guard.DB(), "SELECT id, name FROM users WHERE id = ?", scanUser)
	user, err := load(ctx, 42)
	fmt.Println(user, err)

	_, err = load(ctx, 43)
	fmt.Println(errors.Is(err, loader.ErrNotFound))
	// Output:
	// {42 Ada} <nil>
	// true
}

func ExampleGuard_DB() {
	server, err := mysqltest.New(mysqltest.Options{InMemory: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	ctx := context.Background()
	guard, err := dbguard.Open(server.DSN(), dbguard.Options{Name: "users-db", MaxConcurrent: 1, MaxQueue: -1, Dial: server.DialFunc})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close(ctx)

	tx, err := guard.DB().BeginTx(ctx, nil) // takes the only slot until it ends
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = guard.DB().ExecContext(ctx, "DELETE FROM sessions")
	fmt.Println(errors.Is(err, protection.ErrRejected))
	fmt.Println(err)
	fmt.Println(tx.Commit())
	// Output:
	// true
	// protection: bulkhead "users-db" rejected the call: no free slot and the queue is full
	// <nil>
}

func ExampleQueryRowBy() {
	server, err := mysqltest.New(mysqltest.Options{InMemory: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	const query = "SELECT price FROM prices WHERE shop = ? AND item = ?"
	server.Handle(query, func(_ context.Context, _ *mysqltest.Query) (*mysqltest.Result, error) {
		return &mysqltest.Result{Columns: mysqltest.Columns("price"), Rows: [][]any{{1299}}}, nil
	})

	ctx := context.Background()
	guard, err := dbguard.Open(server.DSN(), dbguard.Options{MaxConcurrent: 8, Dial: server.DialFunc})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Close(ctx)

	type offer struct {
		shop string
		item int64
	}
	load := dbguard.QueryRowBy(guard.DB(), query,
		func(o offer) []any { return []any{o.shop, o.item} },
		func(row dbguard.Scanner) (cents int, err error) {
			err = row.Scan(&cents)
			return cents, err
		})
	fmt.Println(load(ctx, offer{"berlin", 7}))
	// Output: 1299 <nil>
}
