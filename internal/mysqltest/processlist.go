package mysqltest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// Process is a session in the process list.
type Process struct {
	ID            uint32
	User, DB      string
	Host          string        // the client's address
	Command       string        // Connect, Sleep or Query; Killed after KILL CONNECTION
	State         string        // of the statement: waiting for a worker, executing, killed
	SQL           string        // of the statement; empty without one
	Age           time.Duration // of the statement, or of the pause since the last one
	InTransaction bool
	Gone          bool              // the client has closed its connection: with a statement, a zombie
	Attrs         map[string]string // connection attributes, owned by the caller
}

// Processes returns the process list, oldest session first.
func (s *Server) Processes() []Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Process, 0, len(s.sessions))
	for _, c := range s.sessions {
		p := Process{
			ID: c.id, User: c.login.user, DB: c.login.db, Host: c.conn.RemoteAddr().String(),
			Command: "Sleep", Age: time.Since(c.since), InTransaction: c.inTransaction, Gone: c.gone,
			Attrs: maps.Clone(c.login.attrs),
		}
		if !c.loggedIn {
			p.Command = "Connect"
		}
		if c.current != nil {
			p.Command, p.State, p.SQL = "Query", c.current.state, c.current.sql
		}
		if c.killed {
			p.Command = "Killed"
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Transaction is a row of INNODB_TRX.
type Transaction struct {
	ID           string
	State        string // RUNNING, LOCK WAIT, ROLLING BACK, COMMITTING
	Started      time.Time
	WaitStarted  time.Time // zero: NULL
	Weight       int64
	ConnID       uint32
	Query        string // empty: NULL
	RowsLocked   int64
	RowsModified int64
}

// SetTransactions sets what a SELECT of single columns or * from information_schema.innodb_trx without WHERE returns. A
// transaction leaves when the session with its ConnID ends. Other statements on the table need a handler.
func (s *Server) SetTransactions(list []Transaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transactions = slices.Clone(list)
}

// Transactions returns what is left of the list that was set.
func (s *Server) Transactions() []Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.transactions)
}

func (s *Server) rollbackLocked(connID uint32) {
	s.transactions = slices.DeleteFunc(s.transactions, func(t Transaction) bool { return t.ConnID == connID })
}

// handleOwn registers what the server can say of itself. Handlers of a test come first.
func (s *Server) handleOwn() {
	one := func(name string, value func(q *Query) any) {
		pattern := parse("SELECT " + name)
		match := func(st *statement) bool { return st.key == pattern.key && pattern.matches(st) }
		s.mux.handleOwn(name, match, func(_ context.Context, q *Query) (*Result, error) {
			return &Result{Columns: Columns(name), Rows: [][]any{{value(q)}}}, nil
		})
	}
	one("CONNECTION_ID()", func(q *Query) any { return uint64(q.ConnID) })
	one("VERSION()", func(*Query) any { return s.opts.Version })
	one("@@version", func(*Query) any { return s.opts.Version })
	one("@@max_allowed_packet", func(*Query) any { return int64(s.opts.MaxAllowedPacket) })
	one("1", func(*Query) any { return int64(1) })

	processes := []string{"id", "user", "host", "db", "command", "time", "state", "info"}
	s.view("information_schema . processlist", processes, s.processRows)
	show := func(st *statement) bool { return st.key == "show processlist" || st.key == "show full processlist" }
	s.mux.handleOwn("SHOW PROCESSLIST", show, func(context.Context, *Query) (*Result, error) {
		return &Result{Columns: Columns(processes...), Rows: s.processRows()}, nil
	})
	s.view("information_schema . innodb_trx", []string{
		"trx_id", "trx_state", "trx_started", "trx_wait_started", "trx_weight", "trx_mysql_thread_id", "trx_query",
		"trx_rows_locked", "trx_rows_modified",
	}, s.transactionRows)
}

// view answers reads of all rows of a table, given by its key.
func (s *Server) view(table string, columns []string, rows func() [][]any) {
	match := func(st *statement) bool {
		_, rest, ok := selectFrom(st.key, table)
		return ok && rest == ""
	}
	s.mux.handleOwn(table, match, func(_ context.Context, q *Query) (*Result, error) {
		list, _, _ := selectFrom(q.key, table)
		return project(list, columns, rows())
	})
}

func (s *Server) processRows() [][]any {
	list := s.Processes()
	rows := make([][]any, 0, len(list))
	for _, p := range list {
		rows = append(rows, []any{
			uint64(p.ID), p.User, p.Host, orNull(p.DB), p.Command, int64(p.Age / time.Second), p.State, orNull(p.SQL),
		})
	}
	return rows
}

func (s *Server) transactionRows() [][]any {
	list := s.Transactions()
	rows := make([][]any, 0, len(list))
	for _, t := range list {
		var waiting any
		if !t.WaitStarted.IsZero() {
			waiting = t.WaitStarted
		}
		rows = append(rows, []any{
			t.ID, t.State, t.Started, waiting, t.Weight, uint64(t.ConnID), orNull(t.Query), t.RowsLocked, t.RowsModified,
		})
	}
	return rows
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
