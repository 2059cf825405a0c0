package mysqltest_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// says answers with its name and the arguments that it got.
func says(name string) mysqltest.Handler {
	return func(_ context.Context, q *mysqltest.Query) (*mysqltest.Result, error) {
		return &mysqltest.Result{Columns: mysqltest.Columns("said"), Rows: [][]any{{fmt.Sprint(name, q.Args)}}}, nil
	}
}

func TestHandlersAreFound(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	srv.Handle("SELECT id, name FROM users WHERE id = ?", says("replaced"))
	srv.Handle("SELECT id, name FROM users WHERE id = ?", says("one"))
	srv.Handle("SELECT id, name FROM users WHERE id = 7", says("seven"))
	srv.Handle("SELECT id FROM users WHERE kind = 'a' AND id = ? LIMIT 1", says("kind"))
	srv.HandleMatch(mysqltest.Regexp(regexp.MustCompile(`^SELECT \w+ FROM orders`)), says("regexp"))
	srv.HandleMatch(mysqltest.Prefix("select  count"), says("prefix"))
	srv.HandleMatch(mysqltest.Func("long", func(text string) bool { return len(text) > 200 }), says("func"))
	srv.HandleFallback(says("fallback"))
	db := open(t, srv)
	for _, c := range []struct {
		query string
		args  []any
		want  string
	}{
		{"SELECT id, name FROM users WHERE id = ?", []any{5}, "one[5]"},
		{"SELECT id, name FROM users WHERE id = 5", nil, "one[5]"},
		{"SELECT id, name FROM users WHERE id = 'five'", nil, "one[five]"},
		{"SELECT id, name FROM users WHERE id = NULL", nil, "one[<nil>]"},
		{"SELECT id, name FROM users WHERE id = -5", nil, "one[-5]"},
		{"select  `id`,name\nfrom users -- all of them\nwhere id=5;", nil, "one[5]"},
		{"SELECT /*+ MAX_EXECUTION_TIME(90) */ id, name FROM users WHERE id = ?", []any{5}, "one[5]"},
		{"SELECT id, name FROM users WHERE id = 7", nil, "seven[]"},
		{"SELECT id FROM users WHERE kind = 'a' AND id = 3 LIMIT 1", nil, "kind[3]"},
		{"SELECT id FROM users WHERE kind = 'a' AND id = ? LIMIT 1", []any{3}, "kind[3]"},
		{"SELECT id FROM users WHERE kind = 'b' AND id = 3 LIMIT 1", nil, "fallback[]"},
		{"SELECT id FROM orders WHERE id = ?", []any{3}, "regexp[3]"},
		{"SELECT /* x */ COUNT(*) FROM users", nil, "prefix[]"},
		{fmt.Sprintf("SELECT '%300d'", 1), nil, "func[]"},
		{"SELECT '?', \"?\", `?`, 'it''s ?', 'it\\'s ?' /* ? */ , ? -- ?\n # ?", []any{1}, "fallback[1]"},
		{"SELECT 5--3, ?", []any{1}, "fallback[1]"},
	} {
		var said string
		if err := db.QueryRowContext(t.Context(), c.query, c.args...).Scan(&said); err != nil || said != c.want {
			t.Errorf("%s: %s %v, want %s", c.query, said, err, c.want)
		}
	}
	by := srv.Stats().ByStatement
	for name, want := range map[string]uint64{
		"SELECT id, name FROM users WHERE id = ?": 7, "SELECT id, name FROM users WHERE id = 7": 1,
		`^SELECT \w+ FROM orders`: 1, "select count": 1, "long": 1, "(fallback)": 3,
	} {
		if by[name] != want {
			t.Errorf("%s counted %d times, want %d", name, by[name], want)
		}
	}
}

func TestStatementsNobodyKnows(t *testing.T) {
	srv := start(t, mysqltest.Options{InMemory: true})
	db := open(t, srv)
	for _, query := range []string{"SELECT 2", "", "  /* nothing */ ", "DO 1; DO 2", "OPTIMIZE TABLE t"} {
		if err := exec(t.Context(), db, query); errno(err) != 1064 {
			t.Errorf("%q: want error 1064, got %v", query, err)
		}
	}
}
