package mysqltest

import (
	"context"
	"errors"
	"time"
)

// running is a statement that is being executed. All but sql and cancel is under Server.mu.
type running struct {
	sql     string
	cancel  context.CancelCauseFunc
	state   string
	granted chan struct{} // closed when a queued statement gets its worker
	zombie  bool          // counted as one
}

const (
	stateQueued    = "waiting for a worker"
	stateExecuting = "executing"
	stateKilled    = "killed"
)

// task is what the server has to do for a statement or a ping.
type task struct {
	name     string
	text     func() string // for matchers
	worker   bool
	explicit bool // only faults whose Match picks it strike
	read     bool // exec comes before the service time
	limit    time.Duration
	exec     func(ctx context.Context) (*Result, error)
}

// query runs a statement and writes its answer.
func (c *session) query(ctx context.Context, st *statement, bound []any, binaryRows bool) error {
	text := lazily(func() string { return collapse(st.sql) })
	var t task
	switch own := c.control(st); {
	case st.key == "" || st.several:
		t = task{name: "(no handler)", exec: func(context.Context) (*Result, error) {
			return nil, errorf(1064, "mysqltest: one statement at a time, please")
		}}
	case own != nil:
		t = task{name: controlName(st.key), explicit: true, exec: own}
	default:
		r := c.srv.mux.find(st, text)
		t = task{name: r.name, worker: !r.free, explicit: r.free, read: reads(st.key), limit: st.limit}
		q := r.query(st, bound)
		q.ConnID = c.id
		q.InTransaction = c.reply.status&statusInTransaction != 0
		t.exec = func(ctx context.Context) (*Result, error) { return r.handler(ctx, q) }
	}
	t.text = text
	return c.perform(ctx, st.sql, t, binaryRows)
}

// lazily calls f when its value is first wanted, and once.
func lazily(f func() string) func() string {
	var value string
	known := false
	return func() string {
		if !known {
			value, known = f(), true
		}
		return value
	}
}

// reads says whether a statement only reads, judged by its first word.
func reads(key string) bool {
	switch verb(key) {
	case "select", "(", "with", "show", "table", "values", "explain", "desc", "describe":
		return true
	}
	return false
}

// perform does a task and writes its answer. It has left the process list and the statistics when the client reads the
// end of the answer.
func (c *session) perform(ctx context.Context, sql string, t task, binaryRows bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st := &running{sql: sql, cancel: cancel, state: stateExecuting}
	c.srv.begin(c, st)
	ended := false
	end := func() {
		if !ended {
			ended = true
			c.srv.end(c)
		}
	}
	defer end()

	res, err := c.outcome(ctx, st, t)
	_, async := errors.AsType[*asyncError](err)
	switch {
	case async, errors.Is(err, errDropped), errors.Is(err, errReset), errors.Is(err, errSilent):
		return err
	case err != nil:
		c.reply.error(asError(ctx, err))
	case res == nil:
		c.reply.ok(0, 0)
	default:
		c.reply.result(ctx, res, binaryRows)
	}
	end()
	return c.reply.flush()
}

// outcome does a task, or what a fault makes of it.
func (c *session) outcome(ctx context.Context, st *running, t task) (res *Result, err error) {
	c.srv.arrived(t.name, t.worker)
	if t.worker {
		defer func() { c.srv.ended(err != nil) }()
	}
	if t.limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, t.limit, Errno(3024))
		defer cancel()
		ctx = limited
	}
	f, hit := c.srv.faults.take(OnStatement, t.explicit, t.text)
	if !hit {
		return c.work(ctx, st, t, 0)
	}
	if f.Action != Delay {
		if err := wait(ctx, f.Delay); err != nil {
			return nil, err
		}
	}
	switch f.Action {
	case FailAsync:
		return nil, &asyncError{f.Err}
	case Delay:
		return c.work(ctx, st, t, f.Delay)
	case Hang:
		t.exec, t.read = hang, true
		return c.work(ctx, st, t, 0)
	case Drop:
		_, _ = c.work(ctx, st, t, 0) //nolint:errcheck // nobody will know
		return nil, errDropped
	case Reset:
		return nil, errReset
	case Silence:
		return nil, errSilent
	default:
		return nil, f.Err
	}
}

// work does a task with a worker, if it needs one, for the service time and extra.
func (c *session) work(ctx context.Context, st *running, t task, extra time.Duration) (*Result, error) {
	service := extra
	if t.worker {
		d, err := c.srv.acquire(ctx, st)
		if err != nil {
			return nil, err
		}
		defer c.srv.release()
		service += d
	}
	if !t.read {
		if err := wait(ctx, service); err != nil {
			return nil, err
		}
		res, err := t.exec(ctx)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // a success stays one: what was written is written
		}
		return res, err
	}
	res, err := t.exec(ctx)
	if cause := wait(ctx, service); cause != nil {
		return nil, cause
	}
	return res, err
}

// hang ends with its ctx only.
func hang(ctx context.Context) (*Result, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// connectFault is what a fault makes of a connection: an *Error instead of a handshake, another end, or nothing.
func connectFault(ctx context.Context, f Fault) error {
	if err := wait(ctx, f.Delay); err != nil {
		return err
	}
	switch f.Action {
	case Fail, FailAsync:
		return f.Err
	case Hang, Silence:
		return errSilent
	case Drop:
		return errDropped
	case Reset:
		return errReset
	default:
		return nil
	}
}

func (s *Server) begin(c *session, st *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.current = st
	c.since = time.Now()
	if c.gone {
		s.zombieLocked(c)
	}
	s.changedLocked()
}

func (s *Server) end(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.current.zombie {
		s.stats.Zombies--
	}
	c.current = nil
	c.since = time.Now()
	s.changedLocked()
}
