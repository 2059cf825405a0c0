package mysqltest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

func TestTable(t *testing.T) {
	for name, tr := range transports {
		t.Run(name, func(t *testing.T) {
			srv := start(t, mysqltest.Options{InMemory: tr.inMemory})
			users := srv.Table("Users", "ID", "Name", "Age")
			for i, name := range []string{"ann", "bob", "cid"} {
				users.Set(i+1, name, 30+i)
			}
			db := open(t, srv, tr.with)
			read := func(query string, args ...any) string {
				t.Helper()
				rows, err := db.QueryContext(t.Context(), query, args...)
				if err != nil {
					return strconv.Itoa(errno(err))
				}
				defer rows.Close()
				var names strings.Builder
				for rows.Next() {
					var name string
					if err := rows.Scan(&name); err != nil {
						t.Fatal(err)
					}
					names.WriteString(name + " ")
				}
				if err := rows.Err(); err != nil {
					t.Fatal(err)
				}
				return names.String()
			}
			for _, c := range []struct {
				query string
				args  []any
				want  string
			}{
				{"SELECT name FROM users WHERE id = ?", []any{2}, "bob "},
				{"SELECT name FROM users WHERE id = ?", []any{"2"}, "bob "},
				{"select u FROM users WHERE id=2", nil, "1054"},
				{"select users.name FROM `users` WHERE `id`=2 LIMIT 1 FOR UPDATE", nil, "bob "},
				{"SELECT name FROM users WHERE id = ? LIMIT ?", []any{1, 3}, "ann "},
				{"SELECT name FROM users WHERE id IN (?, ?,?, ?)", []any{3, 1, 3, 99}, "ann cid "},
				{"SELECT name FROM users WHERE id IN (3)", nil, "cid "},
				{"SELECT name FROM users WHERE id = ?", []any{99}, ""},
				{"SELECT name FROM users WHERE id > ?", []any{1}, "1064"},
				{"SELECT name FROM users WHERE id IN (SELECT 1)", nil, "1064"},
				{"SELECT name FROM users2 WHERE id = ?", []any{1}, "1064"},
				{"SELECT name FROM users", nil, "1064"},
			} {
				if got := read(c.query, c.args...); got != c.want {
					t.Errorf("%s: %q, want %q", c.query, got, c.want)
				}
			}

			users.Set(2, "bea")
			if got := read("SELECT name FROM users WHERE id IN (1, 2)"); got != "ann bea " {
				t.Error("after a change:", got)
			}
			if row, ok := users.Get("2"); !ok || row[1] != "bea" || row[2] != nil {
				t.Error(row, ok)
			}
			if !users.Delete(2) || users.Delete(2) {
				t.Error("Delete does not say what it did")
			}
			if got := read("SELECT name FROM users WHERE id = 2"); got != "" {
				t.Error("after deletion:", got)
			}
		})
	}
}

func TestInnodbTrx(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	db := open(t, srv)
	blocker := conn(t, db)
	var id uint32
	if err := blocker.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	began := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	srv.SetTransactions([]mysqltest.Transaction{
		{ID: "4711", State: "RUNNING", Started: began, ConnID: id, Weight: 9},
		{ID: "4712", State: "LOCK WAIT", Started: began, WaitStarted: began, ConnID: 777, Query: "UPDATE t SET a = 1"},
	})
	var trx string
	var started time.Time
	var thread uint32
	const query = "SELECT trx_id, trx_started, trx_mysql_thread_id FROM information_schema.INNODB_TRX"
	if err := db.QueryRowContext(t.Context(), query).Scan(&trx, &started, &thread); err != nil {
		t.Fatal(err)
	}
	if trx != "4711" || !started.Equal(began) || thread != id {
		t.Error(trx, started, thread)
	}
	if err := exec(t.Context(), db, fmt.Sprint("KILL ", id)); err != nil {
		t.Error(err)
	}
	await(t, srv, "rolled back", func(mysqltest.Stats) bool { return len(srv.Transactions()) == 1 })
	if err := exec(t.Context(), db, "SELECT COUNT(*) FROM information_schema.innodb_trx"); errno(err) != 1054 {
		t.Error("want error 1054 without a handler, got", err)
	}
}
