package mysqltest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

func TestFailHitsTheNextStatements(t *testing.T) {
	for _, number := range []uint16{1040, 1205, 1213, 3024, 65000} {
		srv := start(t, mysqltest.Options{InMemory: true})
		srv.HandleFallback(ok)
		c := conn(t, open(t, srv))
		remove := srv.Inject(mysqltest.Fault{Err: mysqltest.Errno(number), Times: 2})
		for i, want := range []int{int(number), int(number), 0} {
			if err := exec(t.Context(), c, "DO 0"); errno(err) != want {
				t.Errorf("statement %d: want error %d, got %v", i, want, err)
			}
		}
		remove() // has gone already
		if got := srv.Stats(); got.Done != 3 || got.Failed != 2 {
			t.Errorf("%+v", got)
		}
	}
}

func TestFaultsMatchStatements(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	srv.HandleFallback(ok)
	c := conn(t, open(t, srv))
	tx, err := c.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	remove := srv.Inject(mysqltest.Fault{Match: mysqltest.Prefix("update a")})
	srv.Inject(mysqltest.Fault{Match: mysqltest.Prefix("COMMIT"), Err: mysqltest.Errno(1213)})
	for query, want := range map[string]int{"UPDATE  /* x */ a SET x = 1": 1105, "UPDATE b SET x = 1": 0} {
		if err := exec(t.Context(), tx, query); errno(err) != want {
			t.Error(query, err)
		}
	}
	remove()
	if err := exec(t.Context(), tx, "UPDATE a SET x = 1"); err != nil {
		t.Error("after removal:", err)
	}
	if err := tx.Commit(); errno(err) != 1213 {
		t.Error("COMMIT:", err)
	}

	srv.ClearFaults()
	srv.Inject(mysqltest.Fault{}) // everything that needs a worker, and pings
	for query, want := range map[string]int{"DO 0": 1105, "SET a = 1": 0, "BEGIN": 0, "KILL QUERY 1": 0, "SELECT 1": 0} {
		if err := exec(t.Context(), c, query); errno(err) != want {
			t.Error(query, err)
		}
	}
	if err := c.PingContext(t.Context()); errno(err) != 1105 {
		t.Error("ping:", err)
	}
}

func TestDelayAddsToTheServiceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{ServiceTime: time.Second}})
		srv.HandleFallback(ok)
		db := open(t, srv)
		srv.Inject(mysqltest.Fault{Action: mysqltest.Delay, Delay: time.Minute, Times: 1})
		for _, want := range []time.Duration{61 * time.Second, time.Second} {
			began := time.Now()
			if err := exec(t.Context(), db, "DO 0"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
		srv.Inject(mysqltest.Fault{Err: mysqltest.Errno(1205), Delay: 50 * time.Second})
		began := time.Now()
		if err := exec(t.Context(), db, "DO 0"); errno(err) != 1205 || time.Since(began) != 50*time.Second {
			t.Error(err, time.Since(began))
		}
	})
}

func TestHangOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 1}})
		srv.HandleFallback(ok)
		db := open(t, srv)
		srv.Inject(mysqltest.Fault{Action: mysqltest.Hang, Times: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := exec(ctx, db, "DO 0"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-time.After(24 * time.Hour)
		if now := srv.Stats(); now.Zombies != 1 || now.Running != 1 {
			t.Errorf("%+v", now)
		}
		if err := exec(t.Context(), db, "KILL QUERY 1"); err != nil {
			t.Error(err)
		}
		if err := exec(t.Context(), db, "DO 0"); err != nil {
			t.Error(err)
		}
	})
}

// TestLostConnections tells a reply that got lost from a statement that never ran.
func TestLostConnections(t *testing.T) {
	for name, tr := range transports {
		for _, c := range []struct {
			action mysqltest.Action
			runs   int
		}{{mysqltest.Drop, 1}, {mysqltest.Reset, 0}} {
			t.Run(name, func(t *testing.T) {
				srv := start(t, mysqltest.Options{InMemory: tr.inMemory})
				ran := make(chan bool, 10)
				srv.HandleFallback(func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
					ran <- true
					return &mysqltest.Result{}, nil
				})
				db := open(t, srv, tr.with)
				srv.Inject(mysqltest.Fault{Action: c.action, Times: 1})
				err := exec(t.Context(), conn(t, db), "UPDATE t SET a = ?", 1)
				if !errors.Is(err, mysql.ErrInvalidConn) && !errors.Is(err, driver.ErrBadConn) {
					t.Error("want a lost connection, got", err)
				}
				if len(ran) != c.runs {
					t.Errorf("the statement ran %d times", len(ran))
				}
				await(t, srv, "gone", func(s mysqltest.Stats) bool { return s.Sessions == 0 && s.MaxZombies == 0 })
				if err := exec(t.Context(), db, "UPDATE t SET a = ?", 1); err != nil {
					t.Error("the next connection:", err)
				}
			})
		}
	}
}

func TestResetIsNotAnEnd(t *testing.T) {
	for _, c := range []struct {
		action mysqltest.Action
		want   error
	}{{mysqltest.Reset, syscall.ECONNRESET}, {mysqltest.Drop, io.EOF}} {
		srv := start(t, mysqltest.Options{InMemory: true})
		srv.Inject(mysqltest.Fault{Action: c.action, On: mysqltest.OnConnect})
		client, err := srv.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, c.want) {
			t.Errorf("want %v, got %v", c.want, err)
		}
		_ = client.Close()
	}
}

func TestFailAsync(t *testing.T) {
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory})
			srv.HandleFallback(ok)
			db := open(t, srv, tr.with)
			srv.Inject(mysqltest.Fault{Action: mysqltest.FailAsync, Err: mysqltest.Errno(4031), Times: 1})
			c := conn(t, db)
			if err := exec(t.Context(), c, "DO ?", 1); errno(err) != 4031 {
				t.Error("want error 4031, got", err)
			}
			if err := exec(t.Context(), c, "DO ?", 1); errno(err) != -1 {
				t.Error("the connection still works:", err)
			}
		})
	}
}

func TestDisconnectIdleSessions(t *testing.T) {
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory})
			srv.HandleFallback(ok)
			srv.Inject(mysqltest.Fault{Action: mysqltest.Hang, Times: 1})
			db := open(t, srv, tr.with)
			busy := make(chan error, 1)
			go func() { busy <- exec(t.Context(), db, "DO 0") }()
			await(t, srv, "busy", func(s mysqltest.Stats) bool { return s.Running == 1 })
			idle := conn(t, db)
			if n := srv.Disconnect(mysqltest.Errno(4031)); n != 1 {
				t.Error(n, "sessions disconnected")
			}
			if n := srv.Disconnect(mysqltest.Errno(4031), 2, 1, 77); n != 0 {
				t.Error(n, "sessions disconnected the second time")
			}
			// in memory the driver cannot look before it writes, and reads the packet
			if err := exec(t.Context(), idle, "DO 0"); err == nil || tr.inMemory && errno(err) != 4031 && !errors.Is(err, driver.ErrBadConn) {
				t.Error(err)
			}
			if err := exec(t.Context(), db, "KILL QUERY 1"); err != nil {
				t.Error(err)
			}
			if err := <-busy; errno(err) != 1317 {
				t.Error(err)
			}
		})
	}
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 1}})
		srv.HandleFallback(ok)
		db := open(t, srv, func(cfg *mysql.Config) { cfg.ReadTimeout = time.Minute })
		c := conn(t, db)
		remove := srv.Inject(mysqltest.Fault{Action: mysqltest.Silence})
		began := time.Now()
		if err := exec(t.Context(), c, "DO 0"); err == nil || time.Since(began) != time.Minute {
			t.Error(err, time.Since(began))
		}
		remove()
		srv.Inject(mysqltest.Fault{Action: mysqltest.Silence, On: mysqltest.OnConnect})
		began = time.Now()
		if err := db.PingContext(t.Context()); err == nil || time.Since(began) < time.Minute {
			t.Error(err, time.Since(began))
		}
		synctest.Wait()
		if now := srv.Stats(); now.Sessions != 0 || now.Running != 0 {
			t.Errorf("the client's end is not noticed: %+v", now)
		}
	})
}

func TestConnectFaults(t *testing.T) {
	srv := start(t, mysqltest.Options{})
	srv.HandleFallback(ok)
	db := open(t, srv)
	db.SetMaxIdleConns(-1) // every ping connects
	for _, number := range []uint16{1040, 1045, 1129} {
		remove := srv.Inject(mysqltest.Fault{On: mysqltest.OnConnect, Err: mysqltest.Errno(number)})
		if err := db.PingContext(t.Context()); errno(err) != int(number) {
			t.Errorf("want error %d, got %v", number, err)
		}
		remove()
	}
	for _, action := range []mysqltest.Action{mysqltest.Drop, mysqltest.Reset} {
		remove := srv.Inject(mysqltest.Fault{On: mysqltest.OnConnect, Action: action})
		if err := db.PingContext(t.Context()); err == nil {
			t.Error("connected in spite of action", action)
		}
		remove()
	}
	srv.Inject(mysqltest.Fault{On: mysqltest.OnConnect, Action: mysqltest.Delay, Delay: time.Millisecond, Times: 1})
	if err := db.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTransactionAfterFault makes sure that a fault in a transaction leaves the session usable.
func TestTransactionAfterFault(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	srv.HandleFallback(ok)
	tx, err := open(t, srv).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	srv.Inject(mysqltest.Fault{Err: mysqltest.Errno(1205), Times: 1})
	if err := exec(t.Context(), tx, "DO 0"); errno(err) != 1205 {
		t.Error(err)
	}
	if err := exec(t.Context(), tx, "DO 0"); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}
