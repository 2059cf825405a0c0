package dbguard_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

func TestQueriesInARowShareOneConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 8})
		load := dbguard.QueryRow[int64](g.DB(), byID, scanName)
		for range 1000 {
			v, err := load(t.Context(), 1)
			assert.NoError(t, err)
			assert.Equal(t, v, "Ada")
		}
		assert.Equal(t, s.Stats().Opened, 1)
		assert.Equal(t, g.Stats(), dbguard.Stats{Idle: 1, Opened: 1})
	})
}

func TestCrowdNeverGetsPastTheBulkhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{ServiceTime: 40 * time.Millisecond})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 8, MaxQueue: 8})
		load := dbguard.QueryRow[int64](g.DB(), byID, scanName)
		var ok, full, late atomic.Int64
		crowd := func() {
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					start := time.Now()
					_, err := load(t.Context(), 1)
					switch {
					case err == nil:
						ok.Add(1)
						return
					case errors.Is(err, protection.ErrFull):
						full.Add(1)
					case errors.Is(err, protection.ErrWaitTimeout):
						late.Add(1)
					}
					assert.ErrorIs(t, err, protection.ErrRejected)
					assert.True(t, time.Since(start) <= 50*time.Millisecond, time.Since(start))
				})
			}
			wg.Wait()
		}
		crowd()
		assert.Equal(t, []int64{ok.Load(), full.Load(), late.Load()}, []int64{16, 48, 0}) // 8 run, 8 wait for 40 ms
		assert.NoError(t, s.SetCapacity(mysqltest.Capacity{ServiceTime: 60 * time.Millisecond}))
		crowd()
		assert.Equal(t, []int64{ok.Load(), full.Load(), late.Load()}, []int64{24, 96, 8}) // the 8 waited for 50 ms in vain
		stats := s.Stats()
		assert.Equal(t, []int{stats.MaxRunning, stats.MaxSessions}, []int{8, 8})
		assert.Equal(t, g.Stats(), dbguard.Stats{Idle: 8, Opened: 8, Rejected: 104})
	})
}

// An observer of a test's may well call t.FailNow.
func TestObserverThatExitsKeepsNoPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		var kinds []observe.Kind
		var down atomic.Bool
		g := guard(t, s, dbguard.Options{
			MaxConcurrent: 1, MaxQueue: -1,
			Breaker: protection.BreakerOptions{MinCalls: 3, OpenFor: time.Second},
			Observer: observe.Func(func(e observe.Event) {
				kinds = append(kinds, e.Kind)
				runtime.Goexit()
			}),
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if down.Load() {
					return nil, errors.New("connection refused")
				}
				return s.DialFunc(ctx, network, addr)
			},
		})
		down.Store(true)
		for range 4 {
			assert.Error(t, g.DB().PingContext(t.Context()))
			assert.Equal(t, g.Stats().InFlight, 0)
		}
		assert.ErrorIs(t, g.DB().PingContext(t.Context()), protection.ErrOpen)
		down.Store(false)
		for g.Stats().Breaker != protection.Closed {
			advance(time.Second)
			_ = g.DB().PingContext(t.Context())
			assert.Equal(t, g.Stats().InFlight, 0)
		}
		synctest.Wait() // a breaker tells what it did behind the calls
		assert.Equal(t, kinds, []observe.Kind{observe.BreakerOpened, observe.BreakerClosed})
	})
}

func TestNegativeQueueRefusesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1, MaxQueue: -1})
		held, err := g.DB().Conn(t.Context())
		assert.NoError(t, err)
		start := time.Now()
		err = g.DB().PingContext(t.Context())
		assert.ErrorIs(t, err, protection.ErrFull)
		assert.Equal(t, time.Since(start), 0)
		assert.NoError(t, held.Close())
		assert.NoError(t, g.DB().PingContext(t.Context()))
	})
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{Name: "db", MaxConcurrent: 8, QPS: 100, Burst: 5})
		load := dbguard.QueryRow[int64](g.DB(), byID, scanName)
		for range 5 {
			_, err := load(t.Context(), 1)
			assert.NoError(t, err)
		}
		_, err := load(t.Context(), 1)
		got := assert.ErrorAs[*protection.RejectedError](t, err)
		assert.Equal(t, *got, protection.RejectedError{
			Name: "db", Policy: "token bucket", Reason: protection.ErrLimited, RetryAfter: 10 * time.Millisecond,
		})
		advance(got.RetryAfter)
		_, err = load(t.Context(), 1)
		assert.NoError(t, err)
		assert.Equal(t, s.Stats().Done, 6)
	})
}

func TestTransactionHoldsOnePermitForItsWholeLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1, MaxQueue: -1, QPS: 0.001, Burst: 2})
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
			tx, err := g.DB().BeginTx(t.Context(), nil)
			assert.NoError(t, err)
			for range 10 { // no statement within takes a token or a slot
				v, err := dbguard.QueryRow[int](tx, byID, scanName)(t.Context(), 2)
				assert.NoError(t, err)
				assert.Equal(t, v, "Grace")
			}
			assert.Equal(t, g.Stats().InFlight, 1)
			assert.NoError(t, end(tx))
			assert.Equal(t, g.Stats().InFlight, 0)
		}
		assert.Equal(t, s.Stats().Opened, 1, "a transaction that ended leaves a good connection")
	})
}

// What ends work passes an open breaker and a full bulkhead (semian#60).
func TestCommitAndRollbackAreNeverRefused_regression(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sql.Tx) error{"COMMIT": (*sql.Tx).Commit, "ROLLBACK": (*sql.Tx).Rollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, mysqltest.Capacity{})
				g := guard(t, s, dbguard.Options{MaxConcurrent: 2, MaxQueue: -1})
				tx, err := g.DB().BeginTx(t.Context(), nil)
				assert.NoError(t, err)
				openBreaker(t, s, g)
				_, err = g.DB().ExecContext(t.Context(), "DELETE")
				assert.ErrorIs(t, err, protection.ErrOpen)
				assert.NoError(t, end(tx))
				assert.Equal(t, s.Stats().ByStatement[name], 1)
				assert.Equal(t, g.Stats().InFlight, 0)
			})
		})
	}
}

// openBreaker makes 21 statements fail as on a server that runs out of memory, and then lets them work again.
func openBreaker(t *testing.T, s *mysqltest.Server, g *dbguard.Guard) {
	t.Helper()
	remove := s.Inject(mysqltest.Fault{Action: mysqltest.Fail, Err: mysqltest.Errno(1041)})
	defer remove()
	load := dbguard.QueryRow[int](g.DB(), byID, scanName)
	for range 21 {
		_, err := load(t.Context(), 1)
		assert.Error(t, err)
		assert.True(t, !errors.Is(err, protection.ErrRejected), err)
	}
	assert.True(t, g.Stats().Breaker != protection.Closed, "21 of 21 failed")
}

func TestBreakerOpensAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{ServiceTime: 10 * time.Millisecond})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 4})
		load := dbguard.QueryRow[int](g.DB(), byID, scanName)
		openBreaker(t, s, g)
		before := s.Stats().Done
		for range 100 {
			_, err := load(t.Context(), 1)
			assert.ErrorIs(t, err, protection.ErrOpen)
		}
		assert.Equal(t, s.Stats().Done, before, "the server heard of none")
		advance(5 * time.Second)
		assert.Equal(t, g.Recoveries(), 0)
		_, err := load(t.Context(), 1)
		assert.NoError(t, err, "the trial")
		assert.Equal(t, g.Recoveries(), 1)
		assert.Equal(t, g.Stats().Breaker, protection.Closed)
	})
}

func TestServerThatIsDownOpensTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 4})
		s.Stop()
		for range 21 {
			assert.Error(t, g.DB().PingContext(t.Context()))
		}
		assert.ErrorIs(t, g.DB().PingContext(t.Context()), protection.ErrOpen)
		assert.NoError(t, s.Start())
		advance(5 * time.Second)
		assert.NoError(t, g.DB().PingContext(t.Context()))
		assert.Equal(t, g.Stats().Breaker, protection.Closed)
	})
}

// Whose deadline it was does not matter to the caller, who gets it in time; the breaker counts timeouts, not cancellations.
func TestContextEndsAreCountedForWhatTheyAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		with func(context.Context) (context.Context, context.CancelFunc)
		want error
		trip bool
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, context.DeadlineExceeded, true},
		"cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, mysqltest.Capacity{ServiceTime: time.Second})
				g := guard(t, s, dbguard.Options{MaxConcurrent: 4})
				load := dbguard.QueryRow[int](g.DB(), byID, scanName)
				for range 21 {
					ctx, cancel := c.with(t.Context())
					start := time.Now()
					_, err := load(ctx, 1)
					cancel()
					assert.ErrorIs(t, err, c.want)
					assert.Equal(t, time.Since(start), 100*time.Millisecond)
				}
				assert.Equal(t, g.Stats().Breaker == protection.Open, c.trip)
				assert.Equal(t, g.Stats().InFlight, 0)
			})
		})
	}
}

// Many errors arrive only while rows are read, after a query that went well.
func TestErrorsBetweenRowsCount_regression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		s.Handle("SELECT many", func(ctx context.Context, _ *mysqltest.Query) (*mysqltest.Result, error) {
			return &mysqltest.Result{Columns: mysqltest.Columns("n"), Stream: func(yield func([]any) bool) {
				yield([]any{strings.Repeat("large enough to leave the server at once ", 1000)})
				<-ctx.Done()
			}}, nil
		})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 4, Breaker: protection.BreakerOptions{MinCalls: 1}})
		read := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			rows, err := g.DB().QueryContext(ctx, "SELECT many")
			assert.NoError(t, err)
			defer rows.Close()
			assert.True(t, rows.Next(), "the first row")
			assert.True(t, !rows.Next(), "the second")
			assert.ErrorIs(t, rows.Err(), context.DeadlineExceeded)
		}
		read()
		read()
		assert.Equal(t, g.Stats().Breaker, protection.Open)
		assert.Equal(t, g.Stats().InFlight, 0)
	})
}
