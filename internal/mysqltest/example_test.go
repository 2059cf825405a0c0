package mysqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// A table of 1,000 rows in a server with 8 workers that need 20 ms for a statement.
func Example() {
	srv, err := mysqltest.New(mysqltest.Options{
		Capacity: mysqltest.Capacity{Workers: 8, ServiceTime: 20 * time.Millisecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	users := srv.Table("users", "id", "name")
	for id := range 1000 {
		users.Set(id, fmt.Sprint("user ", id))
	}

	db, err := sql.Open("mysql", srv.DSN()+"?interpolateParams=true")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	var name string
	read := func() error {
		return db.QueryRowContext(context.Background(), "SELECT name FROM users WHERE id = ?", 42).Scan(&name)
	}
	fmt.Println(read(), name)
	users.Set(42, "Douglas")
	fmt.Println(read(), name)

	seen := srv.Stats()
	fmt.Println(seen.Done, "statements, at most", seen.MaxRunning, "at a time,", seen.MaxQueued, "queued")
	// Output:
	// <nil> user 42
	// <nil> Douglas
	// 2 statements, at most 1 at a time, 0 queued
}

// A scripted answer, a fault for the next statement, and a connection in memory.
func ExampleServer_Handle() {
	srv, err := mysqltest.New(mysqltest.Options{InMemory: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	srv.Handle("SELECT id, name FROM users WHERE id = ?", func(_ context.Context, q *mysqltest.Query) (*mysqltest.Result, error) {
		return &mysqltest.Result{Columns: mysqltest.Columns("id", "name"), Rows: [][]any{{q.Args[0], "ann"}}}, nil
	})
	srv.Inject(mysqltest.Fault{Err: mysqltest.Errno(1213), Times: 1})

	cfg := mysql.NewConfig()
	cfg.DialFunc = srv.DialFunc
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for range 2 {
		var id int
		var name string
		err := db.QueryRowContext(context.Background(), "SELECT id, name FROM users WHERE id = ?", 7).Scan(&id, &name)
		fmt.Println(id, name, err)
	}
	// Output:
	// 0  Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction
	// 7 ann <nil>
}
