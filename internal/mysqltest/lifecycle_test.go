package mysqltest_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

func TestBadOptionsAreNamed(t *testing.T) {
	for field, opts := range map[string]mysqltest.Options{
		"Options.Addr":             {Addr: "300.0.0.1:1"},
		"Options.InMemory":         {Addr: "127.0.0.1:3306", InMemory: true},
		"Options.AuthPlugin":       {AuthPlugin: "sha256_password"},
		"Options.MaxAllowedPacket": {MaxAllowedPacket: -1},
		"Options.KillDelay":        {KillDelay: -1},
		"Capacity.Workers":         {Capacity: mysqltest.Capacity{Workers: -1}},
		"Capacity.ServiceTime":     {Capacity: mysqltest.Capacity{ServiceTime: -1}},
		"Capacity.Jitter":          {Capacity: mysqltest.Capacity{Jitter: -1}},
	} {
		srv, err := mysqltest.New(opts)
		if err == nil || !strings.Contains(err.Error(), field) || srv != nil {
			t.Errorf("%s: %v, %v", field, srv, err)
		}
	}
}

func TestRestart(t *testing.T) {
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory})
			srv.Table("users", "id", "name").Set(1, "ann")
			db := open(t, srv, tr.with)
			addr := srv.Addr()
			for range 3 {
				var name string
				var id int
				c := conn(t, db)
				if err := c.QueryRowContext(t.Context(), "SELECT name FROM users WHERE id = ?", 1).Scan(&name); err != nil {
					t.Fatal(err)
				}
				if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil || id != 1 {
					t.Error("connection id", id, err)
				}
				_ = c.Close()
				srv.Stop()
				srv.Stop()
				if err := exec(t.Context(), db, "DO 0"); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Error("want connection refused, got", err)
				}
				if now := srv.Stats(); now.Sessions != 0 || now.Conns != 0 {
					t.Errorf("%+v", now)
				}
				if err := errors.Join(srv.Start(), srv.Start()); err != nil || srv.Addr() != addr {
					t.Fatal(err, srv.Addr())
				}
			}
		})
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory, Capacity: mysqltest.Capacity{Workers: 2}, KillDelay: time.Hour})
			srv.HandleFallback(ok)
			srv.Handle("SELECT n", func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
				return &mysqltest.Result{Columns: mysqltest.Columns("n"), Stream: func(yield func([]any) bool) {
					for yield([]any{"a client that does not read"}) {
					}
				}}, nil
			})
			db := open(t, srv, tr.with)
			rows, err := db.QueryContext(t.Context(), "SELECT n") //nolint:rowserrcheck // never read
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			srv.Inject(mysqltest.Fault{Action: mysqltest.Hang})
			var wg sync.WaitGroup
			for range 4 { // two run, two wait
				wg.Go(func() {
					if err := exec(t.Context(), db, "DO 0"); err == nil {
						t.Error("a statement survived the server")
					}
				})
			}
			await(t, srv, "full", func(s mysqltest.Stats) bool { return s.Running == 2 && s.Queued == 2 })
			for range 2 {
				wg.Go(func() { _ = srv.Close() })
			}
			wg.Wait()
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
			if err := srv.Start(); !errors.Is(err, mysqltest.ErrClosed) {
				t.Error("want ErrClosed, got", err)
			}
			if _, err := srv.Dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Error("want connection refused, got", err)
			}
		})
	}
}

func TestCloseEndsSilentConnections(t *testing.T) {
	srv := start(t, mysqltest.Options{})
	srv.Inject(mysqltest.Fault{Action: mysqltest.Silence, On: mysqltest.OnConnect})
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	await(t, srv, "connected", func(s mysqltest.Stats) bool { return s.Conns == 1 })
	_ = srv.Close()
}

func TestDialHeedsItsContext(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := srv.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := srv.Await(ctx, func(mysqltest.Stats) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestGoexitInAHandlerLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, mysqltest.Options{InMemory: true, Capacity: mysqltest.Capacity{Workers: 1}})
		srv.HandleFallback(func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
			runtime.Goexit() // as t.Fatal does
			return &mysqltest.Result{}, nil
		})
		db := open(t, srv)
		for range 2 { // the second needs the worker of the first
			if err := exec(t.Context(), conn(t, db), "DO 0"); errno(err) != -1 {
				t.Error(err)
			}
		}
		synctest.Wait()
		if now := srv.Stats(); now.Sessions != 0 || now.Running != 0 || now.Done != 2 {
			t.Errorf("%+v", now)
		}
	})
}
