package dbguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/protection"
)

// realDB opens a guard of a real server with a table of users. Its deadlines are long: a busy machine is slow.
func realDB(t *testing.T, o dbguard.Options) *dbguard.Guard {
	t.Helper()
	g := guardDSN(t, testutil.MySQL(t)+"?parseTime=true", o)
	exec(t, g, "CREATE TABLE users (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50) NOT NULL UNIQUE, born DATETIME(6) NULL) ENGINE=InnoDB")
	exec(t, g, "INSERT INTO users VALUES (1, 'Ada', '1815-12-10'), (2, 'Grace', NULL), (18446744073709551615, 'Last', NULL)")
	return g
}

func exec(t *testing.T, g *dbguard.Guard, query string, args ...any) {
	t.Helper()
	_, err := g.DB().ExecContext(t.Context(), query, args...)
	assert.NoError(t, err)
}

func TestRealServerLoads(t *testing.T) {
	g := realDB(t, dbguard.Options{MaxConcurrent: 4})
	load := dbguard.QueryRow[uint64](g.DB(), byID, scanName)
	for key, want := range map[uint64]string{1: "Ada", 2: "Grace", 1<<64 - 1: "Last"} {
		v, err := load(t.Context(), key)
		assert.NoError(t, err)
		assert.Equal(t, v, want)
	}
	_, err := load(t.Context(), 3)
	assert.ErrorIs(t, err, loader.ErrNotFound)
	byName := dbguard.QueryRow[userName](g.DB(), "SELECT born FROM users WHERE name = ?", func(s dbguard.Scanner) (born sql.NullTime, err error) {
		err = s.Scan(&born)
		return born, err
	})
	born, err := byName(t.Context(), "Ada")
	assert.NoError(t, err)
	assert.Equal(t, born.Time.Year(), 1815)
	for range 1000 {
		_, err := load(t.Context(), 1)
		assert.NoError(t, err)
	}
	assert.Equal(t, g.Stats(), dbguard.Stats{Idle: 1, Opened: 1})
}

func TestRealServerPreparedStatements(t *testing.T) {
	g := realDB(t, dbguard.Options{MaxConcurrent: 2})
	stmt, err := g.DB().PrepareContext(t.Context(), byID)
	assert.NoError(t, err)
	defer func() { assert.NoError(t, stmt.Close()) }()
	insert, err := g.DB().PrepareContext(t.Context(), "INSERT INTO users VALUES (?, ?, NULL)")
	assert.NoError(t, err)
	defer func() { assert.NoError(t, insert.Close()) }()
	for i := range 20 {
		_, err := insert.ExecContext(t.Context(), 100+i, string(rune('a'+i)))
		assert.NoError(t, err)
		var name string
		assert.NoError(t, stmt.QueryRowContext(t.Context(), 100+i).Scan(&name))
		assert.Equal(t, name, string(rune('a'+i)))
	}
	assert.Equal(t, g.Stats().InFlight, 0)
	assert.Equal(t, g.Stats().Opened, 1)
	var status, open string
	assert.NoError(t, g.DB().QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").Scan(&status, &open))
	assert.Equal(t, open, "0", "statements are closed before their connection is lent again")
}

func TestRealServerTransactions(t *testing.T) {
	g := realDB(t, dbguard.Options{MaxConcurrent: 1, MaxQueue: -1})
	for _, commit := range []bool{false, true} {
		tx, err := g.DB().BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		assert.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "DELETE FROM users WHERE id = 1")
		assert.NoError(t, err)
		assert.ErrorIs(t, g.DB().PingContext(t.Context()), protection.ErrFull)
		end, want := tx.Rollback, error(nil)
		if commit {
			end, want = tx.Commit, loader.ErrNotFound
		}
		assert.NoError(t, end())
		_, err = dbguard.QueryRow[int](g.DB(), byID, scanName)(t.Context(), 1)
		assert.Equal(t, err, want)
	}
	assert.Equal(t, g.Stats().Opened, 1)
}

func TestRealServerCallersMistakesDoNotOpenTheBreaker(t *testing.T) {
	g := realDB(t, dbguard.Options{MaxConcurrent: 1, Breaker: protection.BreakerOptions{MinCalls: 1}})
	for _, query := range []string{
		"SELECT", "SELECT nothing FROM users", "SELECT * FROM nowhere", "INSERT INTO users VALUES (1, 'x', NULL)",
		"INSERT INTO users VALUES (5, NULL, NULL)", "INSERT INTO users VALUES (-1, 'x', NULL)", "SELECT (SELECT id FROM users)",
		"INSERT INTO users VALUES (6, 'Ada', NULL)", "UPDATE users SET name = REPEAT('x', 51)", "SIGNAL SQLSTATE '45000'",
	} {
		_, err := g.DB().ExecContext(t.Context(), query)
		assert.Error(t, err, query)
		assert.Equal(t, g.Stats().Breaker, protection.Closed, query)
	}
	_, err := g.DB().ExecContext(t.Context(), "DELETE FROM users WHERE id = ?", sql.Named("id", 1))
	assert.Error(t, err, "the driver knows no named parameters")
	assert.Equal(t, g.Stats().Breaker, protection.Closed)
	assert.Equal(t, g.Stats().Opened, 1, "nor do they cost a connection")
}

func TestRealServerKilledSession(t *testing.T) {
	g := realDB(t, dbguard.Options{MaxConcurrent: 4})
	all := conns(t, g, 4)
	killer, victims := all[0], all[1:]
	for _, c := range victims {
		_, err := killer.ExecContext(t.Context(), fmt.Sprint("KILL CONNECTION ", connID(t, c)))
		assert.NoError(t, err)
	}
	giveBack(t, all)
	for range 8 {
		assert.NoError(t, g.DB().PingContext(t.Context()))
	}
	assert.Equal(t, g.Stats().InFlight, 0)
}

func TestRealServerNeverSeesMoreThanTheBulkhead(t *testing.T) {
	g := realDB(t, dbguard.Options{MaxConcurrent: 8, MaxQueue: 8})
	load := dbguard.QueryRow[int](g.DB(), "SELECT name FROM users WHERE id = ? AND SLEEP(0.2) = 0", scanName)
	watch := guardDSN(t, testutil.MySQL(t), dbguard.Options{MaxConcurrent: 1})
	running := dbguard.QueryRow[string](watch.DB(),
		"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND IN ('Query', 'Execute') AND INFO LIKE ? AND ID <> CONNECTION_ID()",
		func(s dbguard.Scanner) (n int, err error) {
			err = s.Scan(&n)
			return n, err
		})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var most atomic.Int64
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for ctx.Err() == nil {
			if n, err := running(ctx, "%SLEEP(0.2)%"); err == nil && int64(n) > most.Load() {
				most.Store(int64(n))
			}
		}
	})
	var ok, refused atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			switch _, err := load(t.Context(), 1); {
			case err == nil:
				ok.Add(1)
			case errors.Is(err, protection.ErrFull), errors.Is(err, protection.ErrWaitTimeout):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cancel()
	watcher.Wait()
	t.Logf("%d answered, %d refused, at most %d running", ok.Load(), refused.Load(), most.Load())
	assert.True(t, ok.Load() >= 8 && refused.Load() > 0)
	assert.True(t, 1 <= most.Load() && most.Load() <= 8, most.Load(), " running at once")
	assert.True(t, g.Stats().Opened <= 8)
}

func TestRealServerStuckBehindALock(t *testing.T) {
	g := realDB(t, dbguard.Options{MaxConcurrent: 2})
	tx, err := g.DB().BeginTx(t.Context(), nil)
	assert.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE users SET born = NULL WHERE id = 1")
	assert.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = g.DB().ExecContext(ctx, "UPDATE users SET born = NULL WHERE id = 1")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, g.Stats().InFlight, 1, "the caller's slot is free again")
	assert.NoError(t, tx.Commit())
	assert.Equal(t, g.Stats().InFlight, 0)
}
