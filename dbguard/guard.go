package dbguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/snowshed-go/snowshed/protection"
)

// ErrClosed is the error of a call that was on its way to a connection when its guard was closed. Later calls never get to
// the guard: database/sql refuses them with an error of its own, "sql: database is closed", which has no name.
var ErrClosed = errors.New("dbguard: closed")

// Guard is the gate in front of one database. Safe for concurrent use.
type Guard struct {
	admission protection.Policy
	bulkhead  *protection.Bulkhead
	breaker   *protection.Breaker
	pool      *pool
	driver    driver.Driver
	db        *sql.DB
	rejected  atomic.Uint64
}

// Open returns a guard for the MySQL server of a DSN in the format of github.com/go-sql-driver/mysql. It never dials: a
// server that cannot be reached shows at the first query. A malformed DSN, or an option that cannot be, is an error that
// names it. A DSN without a timeout gets one of 5 s for dial and handshake. The caller must Close the guard.
func Open(dsn string, o Options) (*Guard, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := newDialer(dsn, o.Dial)
	if err != nil {
		return nil, err
	}
	g := &Guard{driver: d.connector.Driver(), pool: newPool(d.dial, o.MaxConcurrent, o.MaxLifetime)}
	if err := g.admit(o); err != nil {
		return nil, err
	}
	g.db = sql.OpenDB(connector{g})
	return g, nil
}

// admit builds the chain of admission: rate, then concurrency, then the breaker, whose trial is thus never wasted on a call
// that something else refuses.
func (g *Guard) admit(o Options) error {
	var err error
	g.breaker, err = protection.NewBreaker(o.Breaker)
	if err != nil {
		return fmt.Errorf("dbguard: Options.Breaker: %w", err)
	}
	g.bulkhead, err = protection.NewBulkhead(protection.BulkheadOptions{
		Name: o.Name, MaxConcurrent: o.MaxConcurrent, MaxQueue: o.MaxQueue, MaxWait: o.MaxWait,
	})
	if err != nil {
		return fmt.Errorf("dbguard: %w", err)
	}
	if o.QPS == 0 {
		g.admission = protection.Chain(g.bulkhead, g.breaker)
		return nil
	}
	limiter, err := protection.NewTokenBucket(protection.TokenBucketOptions{Name: o.Name, Rate: o.QPS, Burst: o.Burst})
	if err != nil {
		return fmt.Errorf("dbguard: %w", err)
	}
	g.admission = protection.Chain(limiter, g.bulkhead, g.breaker)
	return nil
}

// DB returns the guarded database: an ordinary *sql.DB, always the same. A call that the guard refuses returns a
// *protection.RejectedError and has not reached the server. A transaction and a *sql.Conn are one admission each, from
// their beginning to their end. The guard has the pool: leave SetMaxOpenConns alone, whose queue has no bound. Closing it
// closes the guard, without waiting.
func (g *Guard) DB() *sql.DB { return g.db }

// Close closes the database and the idle connections, and waits until those in use have come back or ctx has ended; then
// it returns an error that wraps ctx's and they are closed as they come back. Queries fail from the start of Close on, as
// [ErrClosed] says.
// It may be called again, to wait again.
func (g *Guard) Close(ctx context.Context) error {
	err := g.db.Close()
	select {
	case <-g.pool.drained:
		return err
	default:
	}
	select {
	case <-g.pool.drained:
		return err
	case <-ctx.Done():
		_, out, _ := g.pool.counts()
		return fmt.Errorf("dbguard: close: %d connections are still in use: %w", out, ctx.Err())
	}
}

// Stats is what a guard is doing. Its parts are read one after another, not at one instant.
type Stats struct {
	InFlight int              // admissions in use; at most MaxConcurrent
	Queued   int              // callers that wait for one; at most MaxQueue
	Idle     int              // open connections that nobody uses
	Opened   uint64           // connections opened since Open
	Rejected uint64           // calls refused since Open
	Breaker  protection.State // of the breaker
}

// Stats returns what the guard is doing.
func (g *Guard) Stats() Stats {
	idle, _, opened := g.pool.counts()
	return Stats{
		InFlight: g.bulkhead.InFlight(), Queued: g.bulkhead.Queued(),
		Idle: idle, Opened: opened, Rejected: g.rejected.Load(),
		Breaker: g.breaker.State(),
	}
}

// Recoveries returns how many times the guard's breaker has closed again. A cache that remembers failures of loads drops
// them when it rises.
func (g *Guard) Recoveries() uint64 { return g.breaker.Recoveries() }
