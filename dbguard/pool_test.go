package dbguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
	"github.com/snowshed-go/snowshed/protection"
)

// conns takes n connections at once.
func conns(t *testing.T, g *dbguard.Guard, n int) []*sql.Conn {
	t.Helper()
	all := make([]*sql.Conn, n)
	for i := range all {
		c, err := g.DB().Conn(t.Context())
		assert.NoError(t, err)
		all[i] = c
	}
	return all
}

func giveBack(t *testing.T, all []*sql.Conn) {
	t.Helper()
	for _, c := range all {
		assert.NoError(t, c.Close())
	}
}

func connID(t *testing.T, q dbguard.Queryer) (id int64) {
	t.Helper()
	id, err := dbguard.QueryRowBy(q, "SELECT CONNECTION_ID()", func(struct{}) []any { return nil }, func(s dbguard.Scanner) (id int64, err error) {
		err = s.Scan(&id)
		return id, err
	})(t.Context(), struct{}{})
	assert.NoError(t, err)
	return id
}

func TestLastConnectionUsedIsTheFirstTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, newServer(t, mysqltest.Capacity{}), dbguard.Options{MaxConcurrent: 4})
		all := conns(t, g, 4)
		second := connID(t, all[1])
		giveBack(t, []*sql.Conn{all[0], all[2], all[3], all[1]})
		for range 10 {
			assert.Equal(t, connID(t, g.DB()), second)
		}
		assert.Equal(t, g.Stats(), dbguard.Stats{Idle: 4, Opened: 4})
	})
}

func TestConnectionsEndBetweenFourFifthsAndAllOfTheirLifetime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		const n = 32
		g := guard(t, s, dbguard.Options{MaxConcurrent: n, MaxLifetime: time.Hour})
		giveBack(t, conns(t, g, n))
		advance(48*time.Minute - time.Second)
		giveBack(t, conns(t, g, n))
		assert.Equal(t, s.Stats().Opened, n, "all live for at least 48 minutes")
		advance(6 * time.Minute)
		giveBack(t, conns(t, g, n))
		replaced := s.Stats().Opened - n
		assert.True(t, 0 < replaced && replaced < n, replaced, " of 32 ended in the first half of the spread")
		advance(6*time.Minute + 2*time.Second)
		giveBack(t, conns(t, g, n))
		assert.Equal(t, s.Stats().Opened, 2*n, "all of the first ones are gone after the hour")
		assert.Equal(t, s.Stats().Sessions, n)
	})
}

// The oldest idle connection is under newer ones, where nobody would take it.
func TestOldestIdleConnectionIsClosedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 8, MaxLifetime: time.Hour})
		older := conns(t, g, 1)
		advance(30 * time.Minute)
		newer := conns(t, g, 1)
		giveBack(t, older)
		giveBack(t, newer)
		advance(31 * time.Minute)
		assert.Equal(t, g.Stats().Idle, 2)
		assert.NoError(t, g.DB().PingContext(t.Context()))
		assert.Equal(t, g.Stats(), dbguard.Stats{Idle: 1, Opened: 2})
		synctest.Wait() // until the server has seen it close
		assert.Equal(t, s.Stats().Sessions, 1)
	})
}

func TestNegativeLifetimeIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1, MaxLifetime: -1})
		assert.NoError(t, g.DB().PingContext(t.Context()))
		advance(10_000 * time.Hour)
		assert.NoError(t, g.DB().PingContext(t.Context()))
		assert.Equal(t, s.Stats().Opened, 1)
	})
}

// database/sql tries three times. With eight dead connections in the pool that would not reach a live one.
func TestOneQueryOutlivesARestartOfTheServer_regression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 8})
		giveBack(t, conns(t, g, 8))
		s.Stop()
		assert.NoError(t, s.Start())
		v, err := dbguard.QueryRow[int](g.DB(), byID, scanName)(t.Context(), 3)
		assert.NoError(t, err)
		assert.Equal(t, v, "Barbara")
		assert.Equal(t, g.Stats(), dbguard.Stats{Idle: 1, Opened: 9})
	})
}

func TestBrokenConnectionIsNotLentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 2})
		load := dbguard.QueryRow[int](g.DB(), byID, scanName)
		for range 21 {
			s.Inject(mysqltest.Fault{Action: mysqltest.Drop, Times: 1})
			_, err := load(t.Context(), 1)
			assert.Error(t, err)
			assert.Equal(t, g.Stats().Idle, 0)
		}
		assert.Equal(t, g.Stats().Breaker, protection.Open, "and each counted as a failure")
	})
}

func TestReadOnlyServerIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 4})
		giveBack(t, conns(t, g, 4))
		s.Inject(mysqltest.Fault{Action: mysqltest.Fail, Err: mysqltest.Errno(1290), Times: 1})
		_, err := g.DB().ExecContext(t.Context(), "UPDATE users SET name = 'Ada'")
		assert.Error(t, err)
		assert.Equal(t, g.Stats().Idle, 0)
	})
}

// Raw's way to say that the session is in a state which nobody else should meet.
func TestConnectionThatRawGivesUpIsNotLentAgain(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]func(any) error{
		"an error": func(any) error { return driver.ErrBadConn },
		"wrapped":  func(any) error { return fmt.Errorf("half-way: %w", driver.ErrBadConn) },
		"a panic":  func(any) error { panic("half-way") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, mysqltest.Capacity{})
				g := guard(t, s, dbguard.Options{MaxConcurrent: 1})
				c := conns(t, g, 1)[0]
				func() {
					defer func() { _ = recover() }()
					assert.ErrorIs(t, c.Raw(raw), driver.ErrBadConn)
				}()
				_ = c.Close()
				assert.Equal(t, g.Stats(), dbguard.Stats{Opened: 1})
				synctest.Wait()
				assert.Equal(t, s.Stats().Sessions, 0)

				c = conns(t, g, 1)[0]
				assert.ErrorIs(t, c.Raw(func(any) error { return sql.ErrNoRows }), sql.ErrNoRows)
				assert.NoError(t, c.Close())
				assert.Equal(t, g.Stats(), dbguard.Stats{Opened: 2, Idle: 1}, "any other error says nothing of the connection")
			})
		})
	}
}

// A transaction that nobody ended must not go to the next borrower; database/sql ends it when ctx does.
func TestTransactionThatItsContextEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1})
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := g.DB().BeginTx(ctx, nil)
		assert.NoError(t, err)
		cancel()
		synctest.Wait()
		assert.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
		assert.Equal(t, g.Stats(), dbguard.Stats{Opened: 1, Idle: 1}, "rolled back, it costs no connection")
		assert.NoError(t, g.DB().PingContext(t.Context()))
		for _, p := range s.Processes() {
			assert.True(t, !p.InTransaction)
		}
	})
}

func TestTransactionWhoseRollbackFailedIsNotLentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1})
		s.Inject(mysqltest.Fault{Action: mysqltest.Fail, Match: mysqltest.Prefix("ROLLBACK"), Times: 1})
		tx, err := g.DB().BeginTx(t.Context(), nil)
		assert.NoError(t, err)
		assert.Error(t, tx.Rollback())
		assert.Equal(t, g.Stats(), dbguard.Stats{Opened: 1})
	})
}

// The server closes idle connections after wait_timeout. That is no failure, and must not count as one.
func TestIdleConnectionThatTheServerClosedIsNoticedBeforeItsUse(t *testing.T) {
	t.Parallel()
	s, err := mysqltest.New(mysqltest.Options{}) // over TCP: the check needs a socket
	assert.NoError(t, err)
	defer s.Close()
	g := guardDSN(t, s.DSN(), dbguard.Options{MaxConcurrent: 1, Breaker: protection.BreakerOptions{MinCalls: 1, FailureRatio: 0.001}})
	for range 10 {
		assert.NoError(t, g.DB().PingContext(t.Context()))
		assert.Eventually(t, 5*time.Second, func() bool { return s.Disconnect(nil) == 1 }, "a session is idle a moment after its reply")
	}
	assert.Equal(t, g.Stats().Breaker, protection.Closed)
	assert.Equal(t, g.Stats().Opened, 10)
}

func TestDialThatHangsEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		s.Inject(mysqltest.Fault{On: mysqltest.OnConnect, Action: mysqltest.Silence})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1})
		start := time.Now()
		err := g.DB().PingContext(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 5*time.Second, err.Error())

		g = guardDSN(t, s.DSN()+"?timeout=2s", dbguard.Options{MaxConcurrent: 1, Dial: s.DialFunc})
		start = time.Now()
		assert.ErrorIs(t, g.DB().PingContext(t.Context()), context.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 2*time.Second, "the DSN's own")

		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, g.DB().PingContext(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 100*time.Millisecond, "the caller's, when it is earlier")
		assert.Equal(t, g.Stats().InFlight, 0)
	})
}

func TestDialThatPanicsLeavesNothingTaken(t *testing.T) {
	t.Parallel()
	s := newServer(t, mysqltest.Capacity{})
	g := guard(t, s, dbguard.Options{MaxConcurrent: 1, MaxQueue: -1, Dial: func(context.Context, string, string) (net.Conn, error) {
		panic(errors.New("boom"))
	}})
	for range 3 {
		func() {
			defer func() { assert.True(t, recover() != nil) }()
			_ = g.DB().PingContext(t.Context())
		}()
		assert.Equal(t, g.Stats().InFlight, 0)
	}
}

// A permit that came back before its connection would let the next caller open one more.
func TestPermitComesBackAfterItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		release := make(chan struct{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1, MaxLifetime: 1, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := s.Dial(ctx)
			return slowToClose{c, release}, err
		}})
		var wg sync.WaitGroup
		wg.Go(func() {
			db, err := g.DB().Conn(t.Context())
			assert.NoError(t, err)
			advance(time.Second) // past its lifetime
			assert.NoError(t, db.Close())
		})
		advance(2 * time.Second)
		assert.Equal(t, g.Stats().InFlight, 1, "the connection is still closing")
		close(release)
		wg.Wait()
		assert.Equal(t, g.Stats().InFlight, 0)
	})
}

type slowToClose struct {
	net.Conn
	release chan struct{}
}

func (s slowToClose) Close() error {
	<-s.release
	return s.Conn.Close()
}

func TestPoolUnderConcurrentUse_stress(t *testing.T) {
	t.Parallel()
	s := newServer(t, mysqltest.Capacity{})
	g := guard(t, s, dbguard.Options{MaxConcurrent: 4, MaxQueue: 100, MaxWait: time.Minute, MaxLifetime: time.Millisecond, Breaker: protection.BreakerOptions{MinCalls: 1 << 30}})
	load := dbguard.QueryRow[int](g.DB(), byID, scanName)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				v, err := load(t.Context(), 2)
				if err != nil || v != "Grace" {
					t.Error(v, err)
				}
			}
		})
	}
	wg.Wait()
	assert.True(t, s.Stats().MaxRunning <= 4 && g.Stats().Idle <= 4, s.Stats().MaxRunning, g.Stats().Idle)
	assert.True(t, g.Stats().Opened > 4, "lifetimes of a millisecond were short enough")
	assert.Equal(t, g.Stats().InFlight, 0)
}
