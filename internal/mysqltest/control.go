package mysqltest

import (
	"context"
	"math"
	"strings"
	"time"
)

// verb is the first word of a statement's key.
func verb(key string) string {
	first, _, _ := strings.Cut(key, " ")
	return first
}

// controlName is what statistics call a statement for which control has an answer.
func controlName(key string) string {
	if strings.HasPrefix(key, "start transaction") {
		return "BEGIN"
	}
	return strings.ToUpper(verb(key))
}

// control returns the execution of a statement that steers the session or the server, nil for any other.
func (c *session) control(st *statement) func(context.Context) (*Result, error) {
	do := func(f func()) func(context.Context) (*Result, error) {
		return func(context.Context) (*Result, error) {
			f()
			return &Result{}, nil
		}
	}
	switch word := verb(st.key); {
	case st.key == "begin" || st.key == "begin work" || strings.HasPrefix(st.key, "start transaction"):
		return do(func() { c.setTransaction(true) })
	case word == "rollback" && strings.Contains(st.key, " to "), word == "savepoint", word == "release":
		return do(func() {})
	case word == "commit", word == "rollback":
		return do(func() { c.setTransaction(false) })
	case word == "set":
		return do(func() { c.setVariables(st) })
	case word == "use":
		return do(func() { c.setDB(strings.TrimPrefix(st.key, "use ")) })
	case word == "kill":
		return func(context.Context) (*Result, error) { return c.srv.runKill(st) }
	}
	return nil
}

// setVariables takes any variables; only autocommit means something, and shows in the status of replies.
func (c *session) setVariables(st *statement) {
	i := strings.Index(st.key, "autocommit = ")
	if i < 0 {
		return
	}
	value := st.key[i+len("autocommit = "):]
	operand := strings.Count(st.key[:i], "?")
	off := strings.HasPrefix(value, "off") || strings.HasPrefix(value, "false")
	if strings.HasPrefix(value, "?") && operand < len(st.operands) {
		off = st.operands[operand].value == int64(0)
	}
	if off {
		c.reply.status &^= statusAutocommit
	} else {
		c.reply.status |= statusAutocommit
	}
}

func (c *session) setTransaction(open bool) {
	if open {
		c.reply.status |= statusInTransaction
	} else {
		c.reply.status &^= statusInTransaction
	}
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	c.inTransaction = open
}

func (c *session) setDB(db string) {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	c.login.db = db
}

func (c *session) ping() task {
	return task{
		name: "PING",
		text: func() string { return "PING" },
		exec: func(context.Context) (*Result, error) { return &Result{}, nil },
	}
}

// runKill executes KILL [CONNECTION | QUERY] id.
func (s *Server) runKill(st *statement) (*Result, error) {
	form := strings.TrimSuffix(strings.TrimPrefix(st.key, "kill"), " ?")
	if len(st.operands) != 1 || form != "" && form != " query" && form != " connection" {
		return nil, Errno(1064)
	}
	id, ok := st.operands[0].value.(int64)
	if !ok || id < 0 {
		return nil, Errno(1064)
	}
	if id > math.MaxUint32 || !s.kill(uint32(id), form != " query") {
		return nil, errorf(1094, "Unknown thread id: %d", id)
	}
	return &Result{}, nil
}

// kill ends what a session runs, and the session too if connection says so. A killed connection's socket is closed at
// once; the statement ends after the KillDelay. It returns false if there is no such session.
func (s *Server) kill(id uint32, connection bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.sessions[id]
	if !ok {
		return false
	}
	delay := s.opts.KillDelay
	var cancel context.CancelCauseFunc
	if c.current != nil {
		c.current.state = stateKilled
		cancel = c.current.cancel
	} else {
		delay = 0
	}
	if connection {
		c.killed = true
		cancel = c.kill
		_ = c.conn.Close() // the client may have been first
	}
	switch {
	case cancel == nil: // KILL QUERY of an idle session
	case delay > 0:
		time.AfterFunc(delay, func() { cancel(Errno(1317)) }) // harmless if the statement ends before
	default:
		cancel(Errno(1317))
	}
	return true
}
