package dbguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
	"github.com/snowshed-go/snowshed/loader"
)

type (
	userID   int64
	userNo   uint64
	userName string
	// ownForm knows how it wants to be stored.
	ownForm string
)

func (o ownForm) Value() (driver.Value, error) { return "own:" + string(o), nil }

func TestKeysBindAsWhatTheyAreBasedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want any }{
		{bound(t, int64(-7)), int64(-7)},
		{bound(t, 7), int64(7)},
		{bound(t, int8(-7)), int64(-7)},
		{bound(t, userID(-7)), int64(-7)},
		{bound(t, uint16(7)), uint64(7)},
		{bound(t, userNo(1<<63+7)), uint64(1<<63 + 7)},
		{bound(t, "x"), "x"},
		{bound(t, userName("x")), "x"},
		{bound(t, ownForm("x")), ownForm("x")},
	} {
		assert.Equal(t, c.got, c.want)
	}
}

// argument is a Queryer that keeps what it is asked for.
type argument struct{ args []any }

func (a *argument) QueryContext(_ context.Context, _ string, args ...any) (*sql.Rows, error) {
	a.args = args
	return nil, sql.ErrConnDone
}

func bound[K dbguard.Scalar](t *testing.T, key K) any {
	t.Helper()
	var a argument
	_, err := dbguard.QueryRow[K](&a, byID, scanName)(t.Context(), key)
	assert.Equal(t, err, sql.ErrConnDone)
	assert.Equal(t, len(a.args), 1)
	return a.args[0]
}

func TestQueryRow(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	// Through text and through prepared statements.
	for _, params := range []string{"?interpolateParams=true", ""} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, mysqltest.Capacity{})
			s.Handle("SELECT name FROM users WHERE team = ? AND no = ?", func(_ context.Context, q *mysqltest.Query) (*mysqltest.Result, error) {
				assert.Equal(t, q.Args, []any{"red", int64(2)})
				return &mysqltest.Result{Columns: mysqltest.Columns("name"), Rows: [][]any{{"Grace"}, {"never read"}}}, nil
			})
			g := guardDSN(t, s.DSN()+params, dbguard.Options{MaxConcurrent: 1, MaxQueue: -1, Dial: s.DialFunc})

			v, err := dbguard.QueryRow[userID](g.DB(), byID, scanName)(t.Context(), 1)
			assert.NoError(t, err)
			assert.Equal(t, v, "Ada")

			v, err = dbguard.QueryRow[int](g.DB(), byID, scanName)(t.Context(), 99)
			assert.True(t, loader.IsNotFound(err) && errors.Is(err, loader.ErrNotFound), err)
			assert.Equal(t, v, "")

			v, err = dbguard.QueryRow[int](g.DB(), byID, func(dbguard.Scanner) (string, error) { return "half", boom })(t.Context(), 1)
			assert.Equal(t, err, boom)
			assert.Equal(t, v, "", "never a value with an error")

			type place struct {
				team string
				no   int
			}
			byPlace := dbguard.QueryRowBy(g.DB(), "SELECT name FROM users WHERE team = ? AND no = ?",
				func(p place) []any { return []any{p.team, p.no} }, scanName)
			v, err = byPlace(t.Context(), place{"red", 2})
			assert.NoError(t, err)
			assert.Equal(t, v, "Grace", "the first row")

			_, err = dbguard.QueryRow[int](g.DB(), "SELECT nonsense", scanName)(t.Context(), 1)
			assert.Error(t, err)
			assert.Equal(t, g.Stats(), dbguard.Stats{Idle: 1, Opened: 1}, "every way out gave the connection back")
		})
	}
}

func TestQueryRowScanThatPanicsGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, newServer(t, mysqltest.Capacity{}), dbguard.Options{MaxConcurrent: 1, MaxQueue: -1})
		func() {
			defer func() { assert.Equal(t, recover(), any("boom")) }()
			_, _ = dbguard.QueryRow[int](g.DB(), byID, func(dbguard.Scanner) (int, error) { panic("boom") })(t.Context(), 1)
		}()
		assert.Equal(t, g.Stats().InFlight, 0)
	})
}

// An error that comes while rows are read is neither the end of the rows nor "not found".
func TestQueryRowErrorInsteadOfTheFirstRow_regression(t *testing.T) {
	t.Parallel()
	db := sql.OpenDB(brokenResult{})
	defer db.Close()
	v, err := dbguard.QueryRow[int](db, byID, scanName)(t.Context(), 1)
	assert.Equal(t, err, errBroken)
	assert.Equal(t, v, "")
}

// brokenResult is a driver whose results break before their first row.
type brokenResult struct{}

var errBroken = errors.New("broken result")

func (b brokenResult) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (b brokenResult) Driver() driver.Driver                        { return nil }
func (b brokenResult) Prepare(string) (driver.Stmt, error)          { return nil, errBroken }
func (b brokenResult) Begin() (driver.Tx, error)                    { return nil, errBroken }
func (b brokenResult) Close() error                                 { return nil }
func (b brokenResult) Columns() []string                            { return []string{"name"} }
func (b brokenResult) Next([]driver.Value) error                    { return errBroken }

func (b brokenResult) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return b, nil
}

func TestLoaderOfNothingIsAnError(t *testing.T) {
	t.Parallel()
	args := func(int) []any { return nil }
	for _, load := range []loader.Func[int, string]{
		dbguard.QueryRow[int](nil, byID, scanName),
		dbguard.QueryRow[int, string](&argument{}, byID, nil),
		dbguard.QueryRowBy[int](&argument{}, byID, nil, scanName),
		dbguard.QueryRowBy[int, string](nil, byID, args, nil),
	} {
		_, err := load(t.Context(), 1)
		assert.Error(t, err)
	}
}
