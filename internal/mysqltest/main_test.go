package mysqltest_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // broken connections are what these tests are about
	goleak.VerifyTestMain(m)
}

// start returns a server that is closed at the end of the test.
func start(tb testing.TB, opts mysqltest.Options) *mysqltest.Server {
	tb.Helper()
	srv, err := mysqltest.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = srv.Close() })
	return srv
}

// open returns a pool on srv, over TCP or in memory as srv is; with may change its configuration.
func open(tb testing.TB, srv *mysqltest.Server, with ...func(*mysql.Config)) *sql.DB {
	tb.Helper()
	cfg, err := mysql.ParseDSN(srv.DSN())
	if err != nil {
		tb.Fatal(err)
	}
	if srv.Addr() == "simulator:3306" {
		cfg.DialFunc = srv.DialFunc
	}
	cfg.ParseTime = true
	for _, f := range with {
		f(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(100)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func interpolate(cfg *mysql.Config) { cfg.InterpolateParams = true }

// conn takes one connection out of the pool, for statements that belong to one session.
func conn(tb testing.TB, db *sql.DB) *sql.Conn {
	tb.Helper()
	c, err := db.Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// await fails the test if cond does not come true in time.
func await(tb testing.TB, srv *mysqltest.Server, what string, cond func(mysqltest.Stats) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	if err := srv.Await(ctx, cond); err != nil {
		tb.Fatalf("never %s: %+v", what, srv.Stats())
	}
}

// errno is the number of a server's error, 0 for none and -1 for another error.
func errno(err error) int {
	var e *mysql.MySQLError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return int(e.Number)
	}
	return -1
}

func exec(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, query string, args ...any,
) error {
	_, err := db.ExecContext(ctx, query, args...)
	return err
}

// ok answers anything.
func ok(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
	return &mysqltest.Result{}, nil
}
