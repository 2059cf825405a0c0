package mysqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// begin runs a statement on a connection of its own and returns the connection's id and where the result will come.
func begin(t *testing.T, db *sql.DB, query string) (id uint32, result <-chan error) {
	t.Helper()
	c := conn(t, db)
	if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- exec(t.Context(), c, query) }()
	synctest.Wait()
	return id, done
}

func TestKill(t *testing.T) {
	for _, c := range []struct {
		kill     string
		delay    time.Duration
		workers  int
		errno    int
		sessions int // afterwards, the killer's included
	}{
		{kill: "KILL QUERY %d", errno: 1317, sessions: 2},
		{kill: "kill query %d", delay: 90 * time.Millisecond, errno: 1317, sessions: 2},
		{kill: "KILL QUERY %d", workers: 1, errno: 1317, sessions: 2},
		{kill: "KILL %d", errno: -1, sessions: 1},
		{kill: "KILL CONNECTION %d", delay: 90 * time.Millisecond, errno: -1, sessions: 1},
	} {
		t.Run(fmt.Sprintf("%s after %v, %d workers", c.kill, c.delay, c.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := start(t, mysqltest.Options{
					InMemory: true, KillDelay: c.delay,
					Capacity: mysqltest.Capacity{Workers: c.workers, ServiceTime: time.Hour},
				})
				srv.HandleFallback(ok)
				db := open(t, srv)
				if c.workers > 0 { // occupies the worker, so that the victim is killed in the queue
					occupant, result := begin(t, db, "DO 1")
					defer func() {
						_ = exec(t.Context(), db, fmt.Sprint("KILL QUERY ", occupant))
						<-result
					}()
					c.sessions++
				}
				id, result := begin(t, db, "UPDATE t SET a = 1")
				began := time.Now()
				if err := exec(t.Context(), db, fmt.Sprintf(c.kill, id)); err != nil {
					t.Fatal(err)
				}
				if err := <-result; errno(err) != c.errno {
					t.Errorf("want error %d, got %v", c.errno, err)
				}
				synctest.Wait()
				if took := time.Since(began); c.errno != -1 && took != c.delay {
					t.Error("the statement ended after", took)
				}
				<-time.After(c.delay) // a killed connection is closed before its statement ends
				synctest.Wait()
				if now := srv.Stats(); now.Sessions != c.sessions || now.Running != min(c.workers, 1) || now.Queued != 0 || now.MaxZombies != 0 {
					t.Errorf("%+v", now)
				}
			})
		})
	}
}

func TestKillOfNothing(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	db := open(t, srv)
	for query, want := range map[string]int{
		"KILL 12345": 1094, "KILL QUERY -1": 1064, "KILL QUERY": 1064, "KILL 'a'": 1064, "KILL EVERYTHING 1": 1064,
		"KILL QUERY 1": 0, // an idle session, its own
	} {
		if err := exec(t.Context(), db, query); errno(err) != want {
			t.Errorf("%s: want error %d, got %v", query, want, err)
		}
	}
	if err := exec(t.Context(), db, "KILL QUERY ?", 1); errno(err) != 6413 {
		t.Error("want error 6413, got", err)
	}
}

func TestKilledWriteChangesNothingAndKilledReadReturnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{ServiceTime: time.Hour}})
		table := srv.Table("t", "id", "a")
		table.Set(1, "old")
		srv.Handle("UPDATE t SET a = 'new'", func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
			table.Set(1, "new")
			return &mysqltest.Result{}, nil
		})
		db := open(t, srv)
		for _, query := range []string{"UPDATE t SET a = 'new'", "SELECT a FROM t WHERE id = 1"} {
			id, result := begin(t, db, query)
			if err := exec(t.Context(), db, fmt.Sprint("KILL QUERY ", id)); err != nil {
				t.Fatal(err)
			}
			if err := <-result; errno(err) != 1317 {
				t.Error(query, err)
			}
		}
		if row, _ := table.Get(1); row[1] != "old" {
			t.Error("the killed write has written")
		}
	})
}

func TestSlowReadReturnsWhatWasThereWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{ServiceTime: time.Second}})
		table := srv.Table("t", "id", "a")
		table.Set(1, "old")
		db := open(t, srv)
		got := make(chan string, 1)
		go func() {
			var a string
			_ = db.QueryRowContext(t.Context(), "SELECT a FROM t WHERE id = ?", 1).Scan(&a)
			got <- a
		}()
		synctest.Wait()
		table.Set(1, "new")
		if a := <-got; a != "old" {
			t.Error("got", a)
		}
	})
}

func TestMaxExecutionTime(t *testing.T) {
	for query, want := range map[string]int{
		"SELECT /*+ MAX_EXECUTION_TIME(50) */ 2":                             3024,
		"select /*+ NO_MERGE(t) max_execution_time( 50 ) */ 2":               3024,
		"SELECT /* not a hint MAX_EXECUTION_TIME(50) */ 2":                   0,
		"SELECT DISTINCT /*+ MAX_EXECUTION_TIME(50) */ 2":                    0,
		"SELECT /*+ MAX_EXECUTION_TIME(x) */ 2":                              0,
		"UPDATE /*+ MAX_EXECUTION_TIME(50) */ t SET a = 2":                   0,
		"SELECT /* in between */ /*+ MAX_EXECUTION_TIME(50) */ 2":            0,
		"SELECT /*+ MAX_EXECUTION_TIME(50) MAX_EXECUTION_TIME(300) */ 2":     3024,
		"SELECT /*+ MAX_EXECUTION_TIME(300) */ /*+ MAX_EXECUTION_TIME(5)*/2": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{ServiceTime: 200 * time.Millisecond}})
			srv.HandleFallback(ok)
			db := open(t, srv)
			began := time.Now()
			err := exec(t.Context(), db, query)
			if took := time.Since(began); errno(err) != want || want != 0 && took != 50*time.Millisecond {
				t.Errorf("%s: %v after %v", query, err, took)
			}
		})
	}
}
