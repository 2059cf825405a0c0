package dbguard

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/snowshed-go/snowshed/protection"
)

// conn is one admission: a connection of the pool, lent to database/sql until Close, and the permit that goes with it.
// database/sql uses it from one goroutine at a time, as the driver package demands.
type conn struct {
	g      *Guard
	s      *session // nil once closed: it may be somebody else's by now
	permit protection.Permit
	worst  protection.Outcome // of all that happened on it; zero: nothing did
	inTx   bool
	broken bool // must not go back to the pool, although the driver would allow it
	asked  bool // database/sql would have it back
}

// IsValid says no, always: database/sql then closes the connection after each use instead of pooling it, and asks the
// connector, and so the guard, for the next one. It does not ask if it gives the connection up: after a panic, or an
// ErrBadConn, which the function of sql.Conn.Raw may return too.
func (c *conn) IsValid() bool {
	c.asked = true
	return false
}

// ResetSession is never called, since no connection is used twice. Without it database/sql would give up the connection of
// each transaction that its context has ended.
func (c *conn) ResetSession(context.Context) error { return driver.ErrBadConn }

// Close gives back the connection, then the permit, so that the next one admitted finds the connection.
func (c *conn) Close() error {
	if c.s == nil {
		return nil
	}
	s := c.s
	c.s = nil
	outcome := c.worst
	if outcome == 0 {
		outcome = protection.Ignored
	}
	c.g.pool.put(s, c.asked && !c.broken && !c.inTx)
	c.permit.Done(outcome)
	return nil
}

// saw takes note of what a step on the connection came to. A use of the connection counts as its worst step.
func (c *conn) saw(err error) {
	if errors.Is(err, driver.ErrSkip) {
		return // database/sql will go another way: nothing has happened yet
	}
	outcome := classify(err, c.s != nil && c.s.IsValid())
	if severity(outcome) > severity(c.worst) {
		c.worst = outcome
	}
	switch {
	case errors.Is(err, driver.ErrBadConn):
		c.broken = true
		if c.s != nil && c.s.reused {
			c.g.pool.flush()
		}
	case wrongServer(err):
		c.broken = true
		c.g.pool.flush()
	}
}

// severity orders outcomes. Ignored is worse than Success: a call that was cancelled half-way proves nothing.
func severity(o protection.Outcome) int {
	switch o {
	case protection.Success:
		return 1
	case protection.Ignored:
		return 2
	case protection.Timeout:
		return 3
	case protection.Failure:
		return 4
	default:
		return 0
	}
}

// QueryContext runs a statement that returns rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.s == nil {
		return nil, driver.ErrBadConn
	}
	r, err := c.s.QueryContext(ctx, query, args)
	c.saw(err)
	if err != nil {
		return nil, err
	}
	return watchRows(c, r)
}

// ExecContext runs a statement that returns none.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.s == nil {
		return nil, driver.ErrBadConn
	}
	r, err := c.s.ExecContext(ctx, query, args)
	c.saw(err)
	return r, err
}

// PrepareContext prepares a statement on this connection.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.s == nil {
		return nil, driver.ErrBadConn
	}
	s, err := c.s.PrepareContext(ctx, query)
	c.saw(err)
	if err != nil {
		return nil, err
	}
	return watchStmt(c, s)
}

// Prepare is the form of PrepareContext that driver.Conn demands. database/sql does not call it.
func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errNoContext }

// BeginTx begins a transaction. It keeps the connection, and so the permit, until it ends; COMMIT and ROLLBACK go straight
// to the server, whatever the guard would say to new work.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.s == nil {
		return nil, driver.ErrBadConn
	}
	t, err := c.s.BeginTx(ctx, opts)
	c.saw(err)
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return &tx{c: c, Tx: t}, nil
}

// Begin is the form of BeginTx that driver.Conn demands. database/sql does not call it.
func (c *conn) Begin() (driver.Tx, error) { return nil, errNoContext }

// Ping asks the server whether it is there.
func (c *conn) Ping(ctx context.Context) error {
	if c.s == nil {
		return driver.ErrBadConn
	}
	err := c.s.Ping(ctx)
	c.saw(err)
	return err
}

// CheckNamedValue lets the driver convert an argument. It talks to nobody, so nothing is noted.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if c.s == nil {
		return driver.ErrBadConn
	}
	return c.s.CheckNamedValue(v)
}

var errNoContext = errors.New("dbguard: use the method with a context")
