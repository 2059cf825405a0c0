package mysqltest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"time"
)

// session is a connection of the process list. Two goroutines belong to it: one reads commands and notices that the client
// has gone, the other does everything else, and outlives the client while a statement runs.
type session struct {
	srv  *Server
	id   uint32
	conn net.Conn
	kill context.CancelCauseFunc

	commands chan packet   // closed when the client has gone
	nudge    chan struct{} // says that expired is set
	quit     chan struct{} // closed when the session ends: stops the reader
	done     chan struct{} // closed when the session has left the process list

	reply        reply
	prepared     map[uint32]*prepared
	lastPrepared uint32

	// Under srv.mu.
	login         login
	since         time.Time // of the present state
	loggedIn      bool
	busy          bool     // with a command
	current       *running // the statement in it
	inTransaction bool
	gone          bool // the client
	killed        bool
	expired       bool // by Disconnect
	farewell      *Error
}

// open puts a new connection into the process list, or refuses it when there are too many.
func (s *Server) open(ctx context.Context, conn net.Conn) {
	ctx, kill := context.WithCancelCause(ctx)
	c := &session{
		srv: s, conn: conn, kill: kill,
		commands: make(chan packet),
		nudge:    make(chan struct{}, 1),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
		prepared: make(map[uint32]*prepared),
		since:    time.Now(),
	}
	c.reply.w = bufio.NewWriterSize(conn, 16<<10)

	s.mu.Lock()
	s.lastID++
	c.id = s.lastID
	refused := s.opts.MaxConnections >= 0 && len(s.sessions) >= s.opts.MaxConnections
	if refused {
		s.stats.Refused++
	} else {
		s.sessions[c.id] = c
		s.stats.Opened++
		s.stats.Conns++
		s.stats.MaxSessions = max(s.stats.MaxSessions, len(s.sessions))
	}
	s.changedLocked()
	s.mu.Unlock()

	if refused {
		c.reply.error(Errno(1040))
		_ = c.reply.flush() // short: fits any socket buffer
		_ = conn.Close()
		kill(nil)
		s.sessionWG.Done()
		return
	}
	go c.run(ctx)
}

func (c *session) run(ctx context.Context) {
	defer c.srv.sessionWG.Done()
	defer c.kill(nil)
	readerDone := make(chan struct{})
	go func() {
		defer close(readerDone)
		c.read()
	}()
	defer func() { // deferred, so that a handler's runtime.Goexit leaves nothing behind
		close(c.quit)
		_ = c.conn.Close() // the client may have been first
		<-readerDone
		c.srv.remove(c)
		close(c.done)
	}()

	err := c.serve(ctx)
	if async, ok := errors.AsType[*asyncError](err); ok {
		c.reply.sequence = 0
		c.reply.error(async.err)
		_ = c.reply.flush() // it ends here either way
	}
	if errors.Is(err, errReset) {
		reset(c.conn)
	}
	for errors.Is(err, errSilent) {
		if _, end := c.receive(ctx); end != nil {
			return
		}
	}
}

// serve greets the client and runs its commands until one of both ends.
func (c *session) serve(ctx context.Context) error {
	if f, hit := c.srv.faults.take(OnConnect, false, func() string { return "" }); hit {
		if err := connectFault(ctx, f); err != nil {
			if refusal, ok := errors.AsType[*Error](err); ok {
				return &asyncError{refusal}
			}
			return err
		}
	}
	if err := c.handshake(ctx); err != nil {
		return err
	}
	for {
		p, err := c.receive(ctx)
		if err != nil {
			return err
		}
		if !c.setBusy(true) {
			return c.expiry()
		}
		c.reply.sequence = p.sequence + 1
		err = c.command(ctx, p)
		c.setBusy(false)
		if err != nil {
			return err
		}
	}
}

// receive waits for a command.
func (c *session) receive(ctx context.Context) (packet, error) {
	select {
	case p, ok := <-c.commands:
		if !ok {
			return packet{}, net.ErrClosed
		}
		return p, nil
	case <-c.nudge:
		return packet{}, c.expiry()
	case <-ctx.Done():
		return packet{}, net.ErrClosed
	}
}

// read passes commands on until the client goes or the session ends.
func (c *session) read() {
	defer close(c.commands)
	r := bufio.NewReaderSize(c.conn, 4<<10)
	for {
		p, err := readPacket(r, c.srv.opts.MaxAllowedPacket)
		if err != nil {
			c.srv.clientGone(c)
			return
		}
		select {
		case c.commands <- p:
		case <-c.quit:
			return
		}
	}
}

// setBusy marks the begin and the end of a command. It returns false if the session has expired meanwhile.
func (c *session) setBusy(busy bool) bool {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	c.busy = busy
	return !c.expired
}

// expiry is what ends an expired session.
func (c *session) expiry() error {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	if c.farewell == nil {
		return net.ErrClosed
	}
	return &asyncError{c.farewell}
}

// asyncError ends a session with an error packet that answers nothing: its sequence id is 0.
type asyncError struct{ err *Error }

func (e *asyncError) Error() string { return e.err.Error() }

// reset closes a connection so that the peer sees ECONNRESET.
func reset(conn net.Conn) {
	switch conn := conn.(type) {
	case *net.TCPConn:
		_ = conn.SetLinger(0) //nolint:errcheck // where it fails the peer sees an ordinary end
	case *pipeConn:
		conn.reset()
	}
}

// remove takes a session that has ended out of the process list, and with it its transactions.
func (s *Server) remove(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c.id)
	if !c.gone {
		c.gone = true
		s.stats.Conns--
	}
	s.rollbackLocked(c.id)
	s.changedLocked()
}

// clientGone notes that the client has closed its connection. A statement that runs is a zombie from here on.
func (s *Server) clientGone(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	s.stats.Conns--
	if c.current != nil {
		s.zombieLocked(c)
	}
	s.changedLocked()
}

// zombieLocked counts the statement of a session without a client. Where the server itself cut the client off the
// statement is about to end, and none.
func (s *Server) zombieLocked(c *session) {
	if c.killed || s.serve == nil {
		return
	}
	c.current.zombie = true
	s.stats.Zombies++
	s.stats.MaxZombies = max(s.stats.MaxZombies, s.stats.Zombies)
}

// loggedIn notes who the client is.
func (s *Server) loggedIn(c *session, who login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.login = who
	c.loggedIn = true
	c.since = time.Now()
}

// Disconnect closes idle sessions as the server does after wait_timeout: err is sent as a packet with sequence id 0,
// which a client meets when it uses the connection again; with a nil err there is none. Without ids it takes all idle
// sessions. It waits until they are gone and returns their number.
func (s *Server) Disconnect(err *Error, ids ...uint32) int {
	s.mu.Lock()
	if len(ids) == 0 {
		for id := range s.sessions {
			ids = append(ids, id)
		}
	}
	var idle []*session
	for _, id := range ids {
		if c, ok := s.sessions[id]; ok && c.loggedIn && !c.busy && !c.expired {
			c.expired, c.farewell = true, err
			c.nudge <- struct{}{} // has room: sent once in a session's life
			idle = append(idle, c)
		}
	}
	s.mu.Unlock()
	for _, c := range idle {
		<-c.done
	}
	return len(idle)
}
