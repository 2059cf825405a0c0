package dbguard

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// What a connection hands out reports back to it how each step ended.

// tx is a transaction.
type tx struct {
	driver.Tx
	c *conn
}

func (t *tx) Commit() error { return t.end(t.Tx.Commit()) }

func (t *tx) Rollback() error { return t.end(t.Tx.Rollback()) }

// end notes how the transaction ended. After an error nobody knows whether it did, so the connection stays marked and is
// closed instead of lent to somebody else.
func (t *tx) end(err error) error {
	t.c.saw(err)
	if err == nil {
		t.c.inTx = false
	}
	return err
}

// fullStmt is what a prepared statement of the MySQL driver can do.
type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
}

// stmt is a prepared statement.
type stmt struct {
	fullStmt
	c *conn
}

func watchStmt(c *conn, s driver.Stmt) (driver.Stmt, error) {
	full, ok := s.(fullStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dbguard: the driver's statement %T lacks a method that the guard forwards", s), s.Close())
	}
	return &stmt{fullStmt: full, c: c}, nil
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	r, err := s.fullStmt.ExecContext(ctx, args)
	s.c.saw(err)
	return r, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	r, err := s.fullStmt.QueryContext(ctx, args)
	s.c.saw(err)
	if err != nil {
		return nil, err
	}
	return watchRows(s.c, r)
}

// fullRows is what a result of the MySQL driver can do.
type fullRows interface {
	driver.RowsNextResultSet
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// rows is a result. Many errors of the server arrive only while it is read.
type rows struct {
	fullRows
	c *conn
}

func watchRows(c *conn, r driver.Rows) (driver.Rows, error) {
	full, ok := r.(fullRows)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dbguard: the driver's result %T lacks a method that the guard forwards", r), r.Close())
	}
	return &rows{fullRows: full, c: c}, nil
}

func (r *rows) Next(dest []driver.Value) error {
	return r.step(r.fullRows.Next(dest))
}

func (r *rows) NextResultSet() error {
	return r.step(r.fullRows.NextResultSet())
}

func (r *rows) Close() error {
	return r.step(r.fullRows.Close())
}

// step notes an error. Success was noted with the statement, and a bare io.EOF is the regular end.
func (r *rows) step(err error) error {
	if err != nil && err != io.EOF { //nolint:errorlint // only the bare one is the end: a wrapped one is a broken connection
		r.c.saw(err)
	}
	return err
}
