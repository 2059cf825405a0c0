package dbguard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

func TestCloseWaitsForWhatIsInUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 4})
		giveBack(t, conns(t, g, 3))
		tx, err := g.DB().BeginTx(t.Context(), nil)
		assert.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err = g.Close(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, err.Error(), "dbguard: close: 1 connections are still in use: context deadline exceeded")
		assert.Equal(t, time.Since(start), time.Second)
		err = g.DB().PingContext(t.Context())
		assert.Error(t, err, "closed from the start of Close on")
		assert.Equal(t, err.Error(), "sql: database is closed", "which is database/sql's")
		synctest.Wait()
		assert.Equal(t, s.Stats().Sessions, 1, "the idle ones are closed")

		time.AfterFunc(time.Minute, func() { assert.NoError(t, tx.Commit()) })
		assert.NoError(t, g.Close(t.Context()), "waits again")
		assert.Equal(t, time.Since(start), time.Second+time.Minute)
		synctest.Wait()
		assert.Equal(t, s.Stats().Sessions, 0)
		assert.NoError(t, g.Close(t.Context()))
		assert.Equal(t, g.Stats(), dbguard.Stats{Opened: 3})
	})
}

func TestClosingTheDatabaseClosesTheIdleConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 4})
		giveBack(t, conns(t, g, 3))
		assert.NoError(t, g.DB().Close())
		synctest.Wait()
		assert.Equal(t, s.Stats().Sessions, 0)
		assert.NoError(t, g.Close(t.Context()))
	})
}

// Whoever waits in the queue when the guard closes must not get a connection afterwards.
func TestCloseReachesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		g := guard(t, s, dbguard.Options{MaxConcurrent: 1, MaxWait: time.Minute})
		held := conns(t, g, 1)
		result := make(chan error, 1)
		go func() { result <- g.DB().PingContext(t.Context()) }()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- g.Close(t.Context()) }()
		synctest.Wait()
		giveBack(t, held)
		assert.NoError(t, <-closed)
		assert.ErrorIs(t, <-result, dbguard.ErrClosed)
		assert.Equal(t, s.Stats().Opened, 1)
	})
}

func TestCloseOfAnIdleGuardSucceedsWhateverItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, mysqltest.Capacity{})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			g := guard(t, s, dbguard.Options{MaxConcurrent: 2})
			assert.NoError(t, g.DB().PingContext(t.Context()))
			assert.NoError(t, g.Close(ended))
		}
	})
}
