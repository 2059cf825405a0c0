package mysqltest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

func TestWorkersTimesServiceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 8, ServiceTime: 20 * time.Millisecond}})
		srv.Table("users", "id", "name").Set(1, "ann")
		db := open(t, srv, interpolate)
		began := time.Now()
		var wg sync.WaitGroup
		for range 80 {
			wg.Go(func() {
				var name string
				if err := db.QueryRowContext(t.Context(), "SELECT name FROM users WHERE id = ?", 1).Scan(&name); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if now := srv.Stats(); now.Running != 8 || now.Queued != 72 {
			t.Errorf("%+v", now)
		}
		wg.Wait()
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Error("80 statements on 8 workers × 20 ms took", took)
		}
		got := srv.Stats()
		if got.MaxRunning != 8 || got.MaxQueued != 72 || got.Done != 80 || got.Running != 0 || got.Queued != 0 ||
			got.PeakPerSecond != 80 || got.ByStatement["table users"] != 80 || got.Failed != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 1, ServiceTime: time.Second}})
		var order []any
		srv.Handle("INSERT ?", func(_ context.Context, q *mysqltest.Query) (*mysqltest.Result, error) {
			order = append(order, q.Args[0]) // one worker: no lock
			return &mysqltest.Result{}, nil
		})
		db := open(t, srv, interpolate)
		var wg sync.WaitGroup
		for i := range int64(5) {
			wg.Go(func() {
				if err := exec(t.Context(), db, "INSERT ?", i); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, got := range order {
			if got != int64(i) {
				t.Fatal("order is", order)
			}
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	for _, c := range []struct{ limit, accepted int }{{-1, 2}, {3, 5}, {0, 10}} {
		synctest.Test(t, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 2, ServiceTime: time.Second, MaxQueue: c.limit}})
			srv.HandleFallback(ok)
			db := open(t, srv)
			codes := make(chan int, 10)
			for range 10 {
				go func() { codes <- errno(exec(t.Context(), db, "DO 0")) }()
			}
			count := map[int]int{}
			for range 10 {
				count[<-codes]++
			}
			if count[0] != c.accepted || count[1041] != 10-c.accepted {
				t.Errorf("limit %d: %v", c.limit, count)
			}
		})
	}
}

func TestCapacityChangesLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 1, ServiceTime: time.Hour}})
		srv.HandleFallback(ok)
		db := open(t, srv)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _ = exec(t.Context(), db, "DO 0") })
		}
		synctest.Wait()
		if err := srv.SetCapacity(mysqltest.Capacity{Workers: 3, ServiceTime: time.Minute, Jitter: time.Second}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := srv.Stats(); now.Running != 3 || now.Queued != 1 {
			t.Errorf("%+v", now)
		}
		if err := srv.SetCapacity(mysqltest.Capacity{Workers: -1}); err == nil {
			t.Error("a negative number of workers was taken")
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took != time.Hour {
			t.Error("the first statement keeps its service time of an hour, but all took", took)
		}
	})
}

func TestMaxConnections(t *testing.T) {
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory, MaxConnections: 2})
			db := open(t, srv)
			conn(t, db)
			second := conn(t, db)
			if _, err := db.Conn(t.Context()); errno(err) != 1040 {
				t.Error("want error 1040, got", err)
			}
			if got := srv.Stats(); got.Conns != 2 || got.Opened != 2 || got.Refused != 1 || got.Sessions != 2 || got.MaxSessions != 2 {
				t.Errorf("%+v", got)
			}
			if srv.Disconnect(nil, srv.Processes()[1].ID) != 1 {
				t.Error("an idle session was not found")
			}
			_ = second.Close()
			conn(t, db)
		})
	}
}

func TestZombiesKeepWorkersAndSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 1, ServiceTime: time.Minute}})
		var written atomic.Int32
		srv.HandleFallback(func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
			written.Add(1)
			return &mysqltest.Result{}, nil
		})
		db := open(t, srv)
		for range 3 { // one runs, two wait
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := exec(ctx, db, "UPDATE t SET a = 1"); err == nil {
				t.Error("no timeout")
			}
			cancel()
		}
		synctest.Wait()
		now := srv.Stats()
		if now.Zombies != 3 || now.Sessions != 3 || now.Conns != 0 || now.Running != 1 || now.Queued != 2 || written.Load() != 0 {
			t.Errorf("%+v, %d written", now, written.Load())
		}
		if p := srv.Processes(); !p[0].Gone || p[0].State != "executing" || p[2].State != "waiting for a worker" || p[0].SQL != "UPDATE t SET a = 1" {
			t.Errorf("%+v", p)
		}
		<-time.After(3 * time.Minute)
		synctest.Wait()
		now = srv.Stats()
		if now.Zombies != 0 || now.Sessions != 0 || now.MaxZombies != 3 || now.Done != 3 || written.Load() != 3 {
			t.Errorf("a minute later: %+v, %d written", now, written.Load())
		}
	})
}

func TestZombieOverTCP(t *testing.T) {
	srv := start(t, mysqltest.Options{})
	srv.Handle("DO 1", ok)
	defer srv.Inject(mysqltest.Fault{Action: mysqltest.Hang, Match: mysqltest.Prefix("DO")})()
	db := open(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- exec(ctx, db, "DO 1") }()
	await(t, srv, "running", func(s mysqltest.Stats) bool { return s.Running == 1 })
	cancel()
	<-result
	await(t, srv, "a zombie", func(s mysqltest.Stats) bool { return s.Zombies == 1 && s.Conns == 0 && s.Sessions == 1 })
	if err := exec(t.Context(), db, "KILL 1"); err != nil {
		t.Error(err)
	}
	await(t, srv, "gone", func(s mysqltest.Stats) bool { return s.Zombies == 0 && s.Sessions == 1 && s.Running == 0 })
}

func TestResetStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 1, ServiceTime: time.Second}})
		srv.HandleFallback(ok)
		db := open(t, srv)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = exec(t.Context(), db, "DO 0") })
		}
		synctest.Wait()
		<-time.After(1500 * time.Millisecond)
		srv.ResetStats()
		if got := srv.Stats(); got.MaxRunning != 1 || got.MaxQueued != 1 || got.Done != 0 || got.PeakPerSecond != 0 || len(got.ByStatement) != 0 || got.Conns != 3 {
			t.Errorf("%+v", got)
		}
		wg.Wait()
		if got := srv.Stats(); got.Done != 2 || got.Running != 0 || got.Queued != 0 {
			t.Errorf("%+v", got)
		}
	})
}
