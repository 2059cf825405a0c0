package mysqltest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeCapacity is how much one side can write before the other reads, in bytes: as with sockets, and unlike net.Pipe, a
// write does not wait for a read.
const pipeCapacity = 256 << 10

// newPipe returns the two ends of an in-memory connection. All waits are on channels, so they are durable in a synctest
// bubble.
func newPipe() (client, server *pipeConn) {
	up, down := newPipeStream(), newPipeStream()
	client = &pipeConn{in: down, out: up, read: newPipeDeadline(), write: newPipeDeadline()}
	server = &pipeConn{in: up, out: down, read: newPipeDeadline(), write: newPipeDeadline()}
	return client, server
}

// pipeConn is one end. It implements net.Conn.
type pipeConn struct {
	in, out     *pipeStream
	read, write *pipeDeadline
}

func (c *pipeConn) Read(p []byte) (int, error) {
	for {
		n, wait, err := c.in.read(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		expired := c.read.expired()
		select {
		case <-expired:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		select {
		case <-wait:
		case <-expired:
		}
	}
}

func (c *pipeConn) Write(p []byte) (int, error) {
	written := 0
	for {
		select {
		case <-c.write.expired():
			return written, os.ErrDeadlineExceeded
		default:
		}
		n, wait, err := c.out.write(p[written:])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
		select {
		case <-wait:
		case <-c.write.expired():
		}
	}
}

// Close lets the peer read what was written and then io.EOF; its writes fail.
func (c *pipeConn) Close() error {
	c.in.closeReader()
	c.out.closeWriter(io.EOF)
	return nil
}

// reset makes the peer's reads fail, data in flight included.
func (c *pipeConn) reset() {
	c.in.closeReader()
	c.out.closeWriter(&net.OpError{Op: "read", Net: "pipe", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return inMemoryAddr }

// pipeStream is one direction.
type pipeStream struct {
	mu           sync.Mutex
	buf          []byte
	changed      chan struct{} // closed at the next change
	writerErr    error         // what the reader gets when the writer has closed
	readerClosed bool
}

func newPipeStream() *pipeStream { return &pipeStream{changed: make(chan struct{})} }

func (s *pipeStream) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *pipeStream) read(p []byte) (n int, wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.readerClosed:
		return 0, nil, net.ErrClosed
	case len(s.buf) > 0:
		n = copy(p, s.buf)
		s.buf = s.buf[n:]
		if len(s.buf) == 0 {
			s.buf = nil
		}
		s.changedLocked()
		return n, nil, nil
	}
	return 0, s.changed, s.writerErr
}

func (s *pipeStream) write(p []byte) (n int, wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.writerErr != nil:
		return 0, nil, net.ErrClosed
	case s.readerClosed:
		return 0, nil, &net.OpError{Op: "write", Net: "pipe", Err: os.NewSyscallError("write", syscall.EPIPE)}
	}
	if n = min(len(p), pipeCapacity-len(s.buf)); n > 0 {
		s.buf = append(s.buf, p[:n]...)
		s.changedLocked()
	}
	return n, s.changed, nil
}

func (s *pipeStream) closeReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readerClosed = true
	s.buf = nil
	s.changedLocked()
}

func (s *pipeStream) closeWriter(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writerErr != nil {
		return
	}
	s.writerErr = err
	if err != io.EOF { //nolint:errorlint // the two values that this file makes
		s.buf = nil
	}
	s.changedLocked()
}

// pipeDeadline is a moment that can be moved.
type pipeDeadline struct {
	mu    sync.Mutex
	timer *time.Timer
	epoch int           // of set; a timer of an older one is void
	done  chan struct{} // closed when the moment has come
}

func newPipeDeadline() *pipeDeadline { return &pipeDeadline{done: make(chan struct{})} }

func (d *pipeDeadline) expired() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

// set moves the deadline; the zero time takes it away. Waits that began before see the change.
func (d *pipeDeadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.epoch++
	select {
	case <-d.done:
		d.done = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		close(d.done)
		return
	}
	epoch := d.epoch
	d.timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if epoch == d.epoch {
			close(d.done)
		}
	})
}
