package mysqltest

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const inMemoryAddr = "simulator:3306"

// ErrClosed is returned by [Server.Start] after [Server.Close].
var ErrClosed = errors.New("mysqltest: server closed")

// Server simulates a MySQL server. All methods are safe for concurrent use.
type Server struct {
	opts   Options
	addr   string // where it listens, or inMemoryAddr
	mux    mux
	faults faults

	lifecycle chan struct{} // held by New, Start, Stop and Close; a channel because they wait while they hold it
	closed    bool          // under lifecycle
	listener  net.Listener  // under lifecycle; nil when stopped or in memory
	sessionWG sync.WaitGroup
	acceptWG  sync.WaitGroup

	mu           sync.Mutex // guards what follows; never held while something is awaited
	serve        func(net.Conn)
	shutdown     context.CancelCauseFunc
	sessions     map[uint32]*session
	lastID       uint32
	capacity     Capacity
	queue        list.List // of *running
	stats        Stats
	window       window
	changed      chan struct{} // closed at the next change, nil when nobody waits for one
	transactions []Transaction
}

// New returns a server that is already started, or an error that names the option that is wrong or says why it cannot
// listen.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		opts:      opts,
		addr:      opts.Addr,
		mux:       mux{exact: make(map[string][]*route)},
		lifecycle: make(chan struct{}, 1),
		sessions:  make(map[uint32]*session),
		capacity:  opts.Capacity,
		stats:     Stats{ByStatement: make(map[string]uint64)},
		window:    window{start: time.Now()},
	}
	if opts.InMemory {
		s.addr = inMemoryAddr
	}
	s.handleOwn()
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

// Addr is the host and port that the server listens on, the same after a restart. In memory it leads nowhere.
func (s *Server) Addr() string { return s.addr }

// DSN is a data source name for go-sql-driver/mysql. In memory it needs [Server.DialFunc].
func (s *Server) DSN() string { return "root@tcp(" + s.addr + ")/test" }

// Start takes up a stopped server on its old port; connection ids start again at 1. It does nothing on one that runs, and
// fails when the port has been taken or the server is closed.
func (s *Server) Start() error {
	s.lifecycle <- struct{}{}
	defer func() { <-s.lifecycle }()
	switch {
	case s.closed:
		return ErrClosed
	case s.running():
		return nil
	}
	ctx, shutdown := context.WithCancelCause(context.Background()) //nolint:forbidigo // ends in Stop, not with a caller
	if !s.opts.InMemory {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
		if err != nil {
			shutdown(nil)
			return fmt.Errorf("mysqltest: cannot listen on Options.Addr: %w", err)
		}
		s.listener = listener
		s.addr = listener.Addr().String()
		s.acceptWG.Go(func() { s.acceptAll(listener) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID = 0
	s.shutdown = shutdown
	s.serve = func(conn net.Conn) { s.open(ctx, conn) }
	return nil
}

// Stop is a server that goes down: new connections are refused, statements and sessions end, also those that hang. It
// waits until all are gone, so handlers must heed their ctx. It does nothing on a stopped server.
func (s *Server) Stop() {
	s.lifecycle <- struct{}{}
	defer func() { <-s.lifecycle }()
	s.stop()
}

// Close stops the server for good. It can be called again, and never fails.
func (s *Server) Close() error {
	s.lifecycle <- struct{}{}
	defer func() { <-s.lifecycle }()
	s.closed = true
	s.stop()
	return nil
}

func (s *Server) stop() {
	if !s.running() {
		return
	}
	if s.listener != nil {
		_ = s.listener.Close() // a listener has nothing to lose
		s.listener = nil
	}
	s.mu.Lock()
	s.serve = nil
	s.shutdown(Errno(1053))
	for _, c := range s.sessions {
		_ = c.conn.Close() // wakes a session that is writing
	}
	s.mu.Unlock()
	s.acceptWG.Wait()
	s.sessionWG.Wait()
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serve != nil
}

func (s *Server) acceptAll(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		if !s.admit(conn) {
			_ = conn.Close() // came in the moment of the stop
		}
	}
}

// Dial returns the client's end of an in-memory connection, which the caller closes. It fails with ECONNREFUSED when the
// server is stopped and with the cause of ctx when that has ended.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	client, server := newPipe()
	if !s.admit(server) {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr{}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return client, nil
}

// DialFunc is [Server.Dial] for mysql.Config.DialFunc; network and address make no difference.
func (s *Server) DialFunc(ctx context.Context, _, _ string) (net.Conn, error) {
	return s.Dial(ctx)
}

// admit begins to serve conn, unless the server is stopped.
func (s *Server) admit(conn net.Conn) bool {
	s.mu.Lock()
	serve := s.serve
	if serve != nil {
		s.sessionWG.Add(1) // under mu: not after stop began to wait
	}
	s.mu.Unlock()
	if serve == nil {
		return false
	}
	serve(conn)
	return true
}
