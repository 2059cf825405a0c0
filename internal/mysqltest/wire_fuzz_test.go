package mysqltest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// FuzzSession feeds a client's bytes to a session, with and without a login before them.
func FuzzSession(f *testing.F) {
	f.Add(true, []byte("\x09\x00\x00\x00\x03SELECT 1"))
	f.Add(true, []byte("\x09\x00\x00\x00\x16SELECT ?\x12\x00\x00\x00\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x08\x00\x07\x00\x00\x00"))
	f.Add(true, []byte("\xff\xff\xff\x00\x03"))
	f.Add(true, []byte("\x08\x00\x00\x00\x18\x01\x00\x00\x00\x00\x00x"))
	f.Add(false, []byte("\x00\x00\x00\x01"))
	f.Add(false, []byte("\x20\x00\x00\x01\x00\x02\x10\x00"))
	f.Fuzz(func(t *testing.T, loggedIn bool, data []byte) {
		srv, err := New(Options{InMemory: true, MaxAllowedPacket: 4096})
		if err != nil {
			t.Fatal(err)
		}
		srv.Table("t", "id", "a").Set(1, 2)
		srv.HandleMatch(Prefix("SELECT"), func(_ context.Context, q *Query) (*Result, error) {
			return &Result{Columns: Columns("n"), Rows: [][]any{q.Args}}, nil
		})
		conn, err := srv.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		if loggedIn {
			_ = conn.Close()
			conn, r = dialRaw(t, srv, clientProtocol41|clientDeprecateEOF)
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, r)
		}()
		_, _ = conn.Write(data)
		_ = conn.Close()
		<-drained
		_ = srv.Close()
		if now := srv.Stats(); now.Sessions != 0 || now.Running != 0 || now.Queued != 0 || now.Zombies != 0 || now.Conns != 0 {
			t.Errorf("left behind: %+v", now)
		}
	})
}

// FuzzParse checks SQL of any kind against what has to hold for it, and the count of placeholders against a naive scan.
func FuzzParse(f *testing.F) {
	for _, sql := range []string{
		"SELECT id, name FROM users WHERE id = ?", "SELECT '?', \"?\" /* ? */, ? -- ?\n, `?` # ?", "SELECT 5--3", "'it''s\\'",
		"SELECT /*+ MAX_EXECUTION_TIME(5) */ _binary'\\0' - -1.5e-3 ;", "a;b", "\x00\xff`", "-", "= -", "1e", "_x'",
	} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		st := parse(sql)
		if want := naivePlaceholders(sql); st.params != want {
			t.Errorf("%d placeholders in %q, want %d", st.params, sql, want)
		}
		if n := strings.Count(st.key, "?"); n < len(st.operands) {
			t.Errorf("key %q has %d operands", st.key, len(st.operands))
		}
		if !st.matches(st) && st.params == 0 {
			t.Errorf("%q does not match itself", sql)
		}
		if short := collapse(sql); len(short) > len(sql) {
			t.Errorf("%q collapses to %q", sql, short)
		}
	})
}

// naivePlaceholders looks at one byte at a time, with the state of what it is in.
func naivePlaceholders(sql string) int {
	n, in := 0, byte(0)
	for i := 0; i < len(sql); i++ {
		c, rest := sql[i], sql[i:]
		switch in {
		case 0:
			switch {
			case c == '?':
				n++
			case c == '\'' || c == '"' || c == '`' || c == '#':
				in = c
			case strings.HasPrefix(rest, "/*"):
				in = '*'
				i++
			case strings.HasPrefix(rest, "--") && (len(rest) == 2 || strings.ContainsRune(" \t\n\v\f\r", rune(rest[2]))):
				in = '#'
				i++
			}
		case '#':
			if c == '\n' {
				in = 0
			}
		case '*':
			if strings.HasPrefix(rest, "*/") {
				in = 0
				i++
			}
		default:
			switch {
			case c == '\\' && in != '`':
				i++
			case c == in:
				in = 0 // a doubled quote comes in again at once
			}
		}
	}
	return n
}

func FuzzLogin(f *testing.F) {
	f.Add([]byte("\x00\x02\x18\x00" + strings.Repeat("\x00", 28) + "ann\x00\x02pw" + "plugin\x00" + "\x04\x01a\x01b"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		who, ok := parseLogin(payload)
		if ok && !bytes.Contains(payload, []byte(who.user)) {
			t.Errorf("user %q is not in %q", who.user, payload)
		}
	})
}
