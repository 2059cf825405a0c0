package mysqltest_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// transports are the ways on which the same must happen.
var transports = map[string]struct {
	inMemory bool
	plugin   string
	with     func(*mysql.Config)
}{
	"tcp, prepared":        {false, "caching_sha2_password", func(*mysql.Config) {}},
	"tcp, interpolated":    {false, "mysql_native_password", interpolate},
	"memory, prepared":     {true, "mysql_native_password", func(cfg *mysql.Config) { cfg.User, cfg.Passwd = "ann", "secret" }},
	"memory, interpolated": {true, "caching_sha2_password", interpolate},
}

func TestValuesTravelBothWays(t *testing.T) {
	now := time.Date(2024, 2, 29, 13, 14, 15, 678901000, time.UTC)
	values := []struct {
		name     string
		arg      any
		handler  any // what the handler sees
		received any // what comes back, scanned into its own type
	}{
		{"integer", int64(-42), int64(-42), int64(-42)},
		{"large unsigned", uint64(1<<63 + 7), uint64(1<<63 + 7), uint64(1<<63 + 7)},
		{"float", 2.5, 2.5, 2.5},
		{"text", "it's \"a\\b\" ? -- #\x00\n\x1a\r", "it's \"a\\b\" ? -- #\x00\n\x1a\r", "it's \"a\\b\" ? -- #\x00\n\x1a\r"},
		{"emoji", "❄🏔", "❄🏔", "❄🏔"},
		{"empty", "", "", ""},
		{"long", strings.Repeat("x", 70_000), strings.Repeat("x", 70_000), strings.Repeat("x", 70_000)},
		{"true", true, int64(1), int64(1)},
		{"time", now, "2024-02-29 13:14:15.678901", now},
	}
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory, AuthPlugin: tr.plugin})
			var saw, answer any
			srv.Handle("SELECT v FROM t WHERE a = ?", func(_ context.Context, q *mysqltest.Query) (*mysqltest.Result, error) {
				saw = q.Args[0]
				return &mysqltest.Result{Columns: mysqltest.Columns("v"), Rows: [][]any{{answer}}}, nil
			})
			db := open(t, srv, tr.with)
			for _, v := range values {
				answer = v.arg
				got := reflect.New(reflect.TypeOf(v.received))
				if err := db.QueryRowContext(t.Context(), "SELECT v FROM t WHERE a = ?", v.arg).Scan(got.Interface()); err != nil {
					t.Fatalf("%s: %v", v.name, err)
				}
				if !reflect.DeepEqual(saw, v.handler) {
					t.Errorf("%s: the handler saw %T %.50v, want %T %.50v", v.name, saw, saw, v.handler, v.handler)
				}
				if !reflect.DeepEqual(got.Elem().Interface(), v.received) {
					t.Errorf("%s: came back as %.50v, want %.50v", v.name, got.Elem(), v.received)
				}
			}
			answer = nil
			var null sql.NullString
			if err := db.QueryRowContext(t.Context(), "SELECT v FROM t WHERE a = ?", nil).Scan(&null); err != nil || null.Valid || saw != nil {
				t.Errorf("NULL: saw %v, came back as %v, %v", saw, null, err)
			}
			answer = []byte{0, 0xff, '\''}
			var blob []byte
			err := db.QueryRowContext(t.Context(), "SELECT v FROM t WHERE a = ?", []byte{1, 0xfe}).Scan(&blob)
			if err != nil || !bytes.Equal(blob, []byte{0, 0xff, '\''}) || fmt.Sprintf("%s", saw) != "\x01\xfe" {
				t.Errorf("bytes: saw %v, came back as %v, %v", saw, blob, err)
			}
		})
	}
}

func TestColumnTypes(t *testing.T) {
	type based int8
	columns := []mysqltest.Column{
		{Name: "t", Type: mysqltest.Text},
		{Name: "b", Type: mysqltest.Blob},
		{Name: "i", Type: mysqltest.Int},
		{Name: "u", Type: mysqltest.Uint},
		{Name: "f", Type: mysqltest.Float},
		{Name: "d", Type: mysqltest.DateTime},
		{Name: "auto"},
	}
	want := []string{"VARCHAR", "BLOB", "BIGINT", "UNSIGNED BIGINT", "DOUBLE", "DATETIME", "BIGINT"}
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory})
			srv.HandleFallback(func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
				return &mysqltest.Result{Columns: columns, Rows: [][]any{
					{}, // all NULL, and types come from what follows
					{12, 12, 12, 12, 12, time.Unix(0, 0), based(12)},
				}}, nil
			})
			rows, err := open(t, srv, tr.with).QueryContext(t.Context(), "SELECT x WHERE y = ?", 1)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			types, err := rows.ColumnTypes()
			if err != nil {
				t.Fatal(err)
			}
			for i, typ := range types {
				if typ.DatabaseTypeName() != want[i] || typ.Name() != columns[i].Name {
					t.Errorf("column %d is %s %s, want %s %s", i, typ.Name(), typ.DatabaseTypeName(), columns[i].Name, want[i])
				}
			}
			rows.Next()
			rows.Next()
			var text, blob string
			var i, u, f, auto int64
			var d time.Time
			if err := rows.Scan(&text, &blob, &i, &u, &f, &d, &auto); err != nil {
				t.Fatal(err)
			}
			if text != "12" || blob != "12" || i != 12 || u != 12 || f != 12 || !d.Equal(time.Unix(0, 0)) || auto != 12 {
				t.Error(text, blob, i, u, f, d, auto)
			}
			if rows.Next() || rows.Err() != nil {
				t.Error("no end after the last row:", rows.Err())
			}
		})
	}
}

func TestValueThatCannotBeSentIsAnError(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	srv.HandleFallback(func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
		return &mysqltest.Result{Columns: mysqltest.Columns("a"), Rows: [][]any{{1}, {struct{}{}}}}, nil
	})
	db := open(t, srv)
	read := func() error {
		rows, err := db.QueryContext(t.Context(), "SELECT a")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
		}
		return rows.Err()
	}
	for range 2 { // the connection stays usable
		if err := read(); errno(err) != 1105 {
			t.Fatal("want error 1105, got", err)
		}
	}
}

func TestPacketsLargerThan16MB(t *testing.T) {
	for _, c := range []struct {
		inMemory bool
		query    string
		args     []any
		want     string
	}{
		{false, "SELECT ?", []any{strings.Repeat("x", 17<<20)}, strings.Repeat("x", 17<<20)},
		// a row that fills one packet exactly, so that an empty one has to follow
		{true, "SELECT 'full'", nil, strings.Repeat("x", 1<<24-1-4)},
	} {
		t.Run(c.query, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: c.inMemory})
			srv.HandleFallback(func(_ context.Context, q *mysqltest.Query) (*mysqltest.Result, error) {
				if len(c.args) > 0 && q.Args[0] != c.want {
					return nil, errors.New("the argument has changed on the way")
				}
				return &mysqltest.Result{Columns: mysqltest.Columns("v"), Rows: [][]any{{c.want}}}, nil
			})
			var got string
			if err := open(t, srv).QueryRowContext(t.Context(), c.query, c.args...).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Fatalf("%d bytes came back as %d", len(c.want), len(got))
			}
		})
	}
}

func TestCommandAboveMaxAllowedPacket(t *testing.T) {
	srv := start(t, mysqltest.Options{MaxAllowedPacket: 2000})
	srv.HandleFallback(ok)
	db := open(t, srv)
	if err := exec(t.Context(), db, "DO '"+strings.Repeat("x", 3000)+"'"); errno(err) != 1153 {
		t.Error("want error 1153, got", err)
	}
	await(t, srv, "closed", func(s mysqltest.Stats) bool { return s.Sessions == 0 })
	if err := exec(t.Context(), db, "DO 0"); err != nil {
		t.Error(err)
	}
}

func TestExecResult(t *testing.T) {
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory})
			srv.Handle("UPDATE t SET a = ? WHERE b = ?", func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
				return &mysqltest.Result{Affected: 300, LastInsertID: 1 << 40}, nil
			})
			res, err := open(t, srv, tr.with).ExecContext(t.Context(), "UPDATE t SET a = ? WHERE b = ?", 1, 2)
			if err != nil {
				t.Fatal(err)
			}
			n, _ := res.RowsAffected()
			id, _ := res.LastInsertId()
			if n != 300 || id != 1<<40 {
				t.Error(n, id)
			}
		})
	}
}

func TestHandlerErrors(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	var answer error
	srv.HandleFallback(func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) { return nil, answer })
	db := open(t, srv)
	for _, c := range []struct {
		err  error
		want mysql.MySQLError
	}{
		{mysqltest.Errno(1213), mysql.MySQLError{Number: 1213, SQLState: [5]byte{'4', '0', '0', '0', '1'}, Message: mysqltest.Errno(1213).Message}},
		{fmt.Errorf("wrapped: %w", &mysqltest.Error{Number: 1040, Message: "no state"}), mysql.MySQLError{Number: 1040, Message: "no state"}},
		{errors.New("plain"), mysql.MySQLError{Number: 1105, SQLState: [5]byte{'H', 'Y', '0', '0', '0'}, Message: "plain"}},
	} {
		answer = c.err
		if err := exec(t.Context(), db, "x"); !reflect.DeepEqual(err, &c.want) {
			t.Errorf("%v arrived as %#v", c.err, err)
		}
	}
}

func TestPreparedStatementIsReused(t *testing.T) {
	srv := start(t, mysqltest.Options{})
	srv.Table("users", "id", "name").Set(1, "ann")
	st, err := open(t, srv).PrepareContext(t.Context(), "SELECT name FROM users WHERE id = ?")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for range 3 {
		var name string
		if err := st.QueryRowContext(t.Context(), 1).Scan(&name); err != nil || name != "ann" {
			t.Fatal(name, err)
		}
	}
	if by := srv.Stats().ByStatement; by["PREPARE"] != 1 || by["table users"] != 3 {
		t.Error(by)
	}
}

func TestTransactionsShowInStatusAndProcessList(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	var inside bool
	srv.HandleFallback(func(_ context.Context, q *mysqltest.Query) (*mysqltest.Result, error) {
		inside = q.InTransaction
		return &mysqltest.Result{}, nil
	})
	db := open(t, srv)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec(t.Context(), tx, "UPDATE t SET a = 1"); err != nil || !inside {
		t.Error(err, inside)
	}
	if err := exec(t.Context(), tx, "ROLLBACK TO SAVEPOINT a"); err != nil {
		t.Error(err)
	}
	if p := srv.Processes(); len(p) != 1 || !p[0].InTransaction || p[0].Command != "Sleep" {
		t.Errorf("%+v", p)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if p := srv.Processes(); len(p) != 1 || p[0].InTransaction {
		t.Errorf("%+v", p)
	}
	if by := srv.Stats().ByStatement; by["BEGIN"] != 1 || by["COMMIT"] != 1 || by["ROLLBACK"] != 1 || srv.Stats().Done != 1 {
		t.Error(by)
	}
}

func TestLoginIsInTheProcessList(t *testing.T) {
	srv := start(t, mysqltest.Options{})
	db := open(t, srv, func(cfg *mysql.Config) {
		cfg.User, cfg.Passwd, cfg.DBName, cfg.ConnectionAttributes = "ann", "secret", "shop", "pod:a7"
	})
	c := conn(t, db)
	if err := exec(t.Context(), c, "USE other"); err != nil {
		t.Fatal(err)
	}
	p := srv.Processes()
	if len(p) != 1 || p[0].User != "ann" || p[0].DB != "other" || p[0].Attrs["pod"] != "a7" || p[0].ID != 1 || p[0].Gone {
		t.Errorf("%+v", p)
	}
	rows, err := c.QueryContext(t.Context(), "SHOW FULL PROCESSLIST")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Error("no row", rows.Err())
	}
}

func TestStreamOfManyRows(t *testing.T) {
	const n = 50_000
	srv := start(t, mysqltest.Options{})
	srv.HandleFallback(func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
		return &mysqltest.Result{
			Columns: []mysqltest.Column{{Name: "n", Type: mysqltest.Int}},
			Stream: func(yield func([]any) bool) {
				for i := range n {
					if !yield([]any{i}) {
						return
					}
				}
			},
		}, nil
	})
	rows, err := open(t, srv).QueryContext(t.Context(), "SELECT n FROM numbers")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got int
	var sum int64
	for ; rows.Next(); got++ {
		var i int64
		if err := rows.Scan(&i); err != nil {
			t.Fatal(err)
		}
		sum += i
	}
	if got != n || sum != n*(n-1)/2 || rows.Err() != nil {
		t.Error(got, sum, rows.Err())
	}
}

func TestKillEndsAStreamInTheMiddle(t *testing.T) {
	srv := start(t, mysqltest.Options{})
	srv.Handle("SELECT n FROM numbers", func(context.Context, *mysqltest.Query) (*mysqltest.Result, error) {
		return &mysqltest.Result{Columns: mysqltest.Columns("n"), Stream: func(yield func([]any) bool) {
			for yield([]any{"endless"}) {
			}
		}}, nil
	})
	db := open(t, srv)
	rows, err := db.QueryContext(t.Context(), "SELECT n FROM numbers")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	rows.Next()
	if err := exec(t.Context(), db, "KILL QUERY 1"); err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if errno(rows.Err()) != 1317 {
		t.Error("want error 1317, got", rows.Err())
	}
}
