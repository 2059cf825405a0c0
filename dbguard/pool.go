package dbguard

import (
	"context"
	"database/sql/driver"
	"math/rand/v2"
	"sync"
	"time"
)

// physical is a connection of the MySQL driver: all that its connections can do and that database/sql makes use of.
type physical interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.QueryerContext
	driver.ExecerContext
	driver.Pinger
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

// session is a physical connection and what the pool knows of it.
type session struct {
	physical
	expires time.Time // zero: never
	reused  bool      // it has been idle, so that the server may have closed it unseen
}

func (s *session) expired(now time.Time) bool { return !s.expires.IsZero() && now.After(s.expires) }

// discard closes the connection. It is not to be used again, so that nobody needs the error.
func (s *session) discard() { _ = s.Close() }

// pool keeps the idle connections. The last one used is the first one taken, so that the surplus of a burst ages.
// It does not bound the connections in use: whoever calls get holds a permit. Since a connection goes back before its
// permit does, there are never more connections than permits.
type pool struct {
	dial     func(context.Context) (physical, error)
	maxIdle  int
	lifetime time.Duration // negative: no bound

	mu      sync.Mutex
	idle    []*session
	out     int // in use or being dialled
	opened  uint64
	closed  bool
	drained chan struct{} // closed when the pool is closed and nothing is out
}

func newPool(dial func(context.Context) (physical, error), maxIdle int, lifetime time.Duration) *pool {
	return &pool{dial: dial, maxIdle: maxIdle, lifetime: lifetime, drained: make(chan struct{})}
}

// get takes an idle connection that is still good, or dials. The caller must put it back.
func (p *pool) get(ctx context.Context) (s *session, err error) {
	if !p.checkOut() {
		return nil, ErrClosed
	}
	defer func() { // also when a dial function of the user's panics
		if s == nil {
			p.checkIn()
		}
	}()
	for {
		idle := p.pop()
		if idle == nil {
			break
		}
		if !idle.expired(time.Now()) && idle.ResetSession(ctx) == nil {
			return idle, nil
		}
		idle.discard()
	}
	conn, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	return p.opening(conn), nil
}

// put takes a connection back. If it is not good any more, it is closed.
func (p *pool) put(s *session, good bool) {
	defer p.checkIn()
	if old := p.push(s, good && s.IsValid()); old != nil {
		old.discard()
	}
}

// push adds s to the idle ones, and returns the connection that must be closed now: s itself if it cannot stay, or else
// the one that has been idle for longest if its time is over. Nil if there is none.
func (p *pool) push(s *session, good bool) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !good || p.closed || len(p.idle) >= p.maxIdle || s.expired(now) {
		return s
	}
	s.reused = true
	p.idle = append(p.idle, s)
	if old := p.idle[0]; old.expired(now) {
		p.idle[0] = nil
		p.idle = p.idle[1:]
		return old
	}
	return nil
}

func (p *pool) pop() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	s := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return s
}

// opening returns the session of a new connection.
func (p *pool) opening(conn physical) *session {
	s := &session{physical: conn}
	if p.lifetime > 0 {
		s.expires = time.Now().Add(p.lifetime - time.Duration(rand.Float64()*0.2*float64(p.lifetime)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened++
	return s
}

// flush closes what is idle. Called when an idle connection turned out dead: whatever closed it (a restart, a proxy) most
// likely closed the others, and database/sql tries only three times.
func (p *pool) flush() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, s := range idle {
		s.discard()
	}
}

// close makes get fail, closes what is idle and lets put close the rest. It does not wait: see drained.
func (p *pool) close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.signal()
	}
	p.mu.Unlock()
	p.flush()
}

func (p *pool) checkOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.out++
	return true
}

func (p *pool) checkIn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
	p.signal()
}

// signal runs under the lock. Once closed, out only falls, so that it gets to zero once.
func (p *pool) signal() {
	if p.closed && p.out == 0 {
		close(p.drained)
	}
}

func (p *pool) counts() (idle, out int, opened uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle), p.out, p.opened
}
