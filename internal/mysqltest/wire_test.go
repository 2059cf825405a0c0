package mysqltest

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// dialRaw logs in without a driver and returns the connection behind its buffer.
func dialRaw(tb testing.TB, srv *Server, flags uint32) (net.Conn, *bufio.Reader) {
	tb.Helper()
	conn, err := srv.Dial(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	r := bufio.NewReader(conn)
	if p, err := readPacket(r, 1000); err != nil || p.payload[0] != 10 {
		tb.Fatal("no greeting", p, err)
	}
	login := append([]byte{byte(flags), byte(flags >> 8), byte(flags >> 16), byte(flags >> 24)}, make([]byte, 28)...)
	login = append(login, "ann\x00\x00"...)
	if p := roundTrip(tb, conn, r, 1, login); p.payload[0] != headerOK || p.sequence != 2 {
		tb.Fatal("login failed", p)
	}
	return conn, r
}

func roundTrip(tb testing.TB, conn net.Conn, r *bufio.Reader, sequence byte, payload []byte) packet {
	tb.Helper()
	w := packetWriter{w: bufio.NewWriter(conn), sequence: sequence}
	w.write(payload)
	if err := w.flush(); err != nil {
		tb.Fatal(err)
	}
	p, err := readPacket(r, 1<<20)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestRawCommands(t *testing.T) {
	srv, err := New(Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	conn, r := dialRaw(t, srv, clientProtocol41)
	for _, c := range []struct {
		name    string
		payload string
		want    string // start of the answer's payload
	}{
		{"init db", "\x02shop", "\x00"},
		{"ping", "\x0e", "\x00"},
		{"reset connection", "\x1f", "\x00\x00\x00\x02\x00"},
		{"begin", "\x03BEGIN", "\x00\x00\x00\x03\x00"},
		{"autocommit off", "\x03SET autocommit=0", "\x00\x00\x00\x01\x00"},
		{"autocommit on", "\x03SET names utf8mb4, @@session.autocommit = ON", "\x00\x00\x00\x03\x00"},
		{"reset in a transaction", "\x1f", "\x00\x00\x00\x02\x00"},
		{"prepare", "\x16BEGIN", "\x00\x01\x00\x00\x00"},
		{"execute", "\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00", "\x00"},
		{"reset statement", "\x1a\x01\x00\x00\x00", "\x00"},
		{"execute an unknown statement", "\x17\x09\x00\x00\x00\x00\x01\x00\x00\x00", "\xff\xdb\x04"},
		{"reset an unknown statement", "\x1a\x09\x00\x00\x00", "\xff\xdb\x04"},
		{"execute cut short", "\x17\x01\x00\x00\x00", "\xff\xba\x04"},
		{"field list", "\x04users\x00", "\xff\x17\x04#08S01"},
		{"change user", "\x11ann\x00", "\xff\x17\x04#08S01"},
		{"no command", "\x7f", "\xff\x17\x04#08S01"},
	} {
		p := roundTrip(t, conn, r, 0, []byte(c.payload))
		if !strings.HasPrefix(string(p.payload), c.want) || p.sequence != 1 {
			t.Errorf("%s: %q with sequence id %d, want %q", c.name, p.payload, p.sequence, c.want)
		}
	}
}

func TestEOFsForOlderClients(t *testing.T) {
	srv, err := New(Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for flags, want := range map[uint32]int{clientProtocol41: 4, clientProtocol41 | clientDeprecateEOF: 3} {
		conn, r := dialRaw(t, srv, flags)
		p := roundTrip(t, conn, r, 0, []byte("\x03SELECT 1"))
		if len(p.payload) != 1 || p.payload[0] != 1 {
			t.Fatal("column count", p)
		}
		for range want { // column, EOF, row, end
			if p, err = readPacket(r, 1000); err != nil {
				t.Fatal(err)
			}
		}
		if p.payload[0] != headerEOF || r.Buffered() > 0 {
			t.Errorf("flags %x: the last packet is %q, %d bytes follow", flags, p.payload, r.Buffered())
		}
	}
}

func TestAsyncErrorHasSequenceZero(t *testing.T) {
	srv, err := New(Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	_, r := dialRaw(t, srv, clientProtocol41)
	if n := srv.Disconnect(Errno(4031)); n != 1 {
		t.Fatal(n)
	}
	p, err := readPacket(r, 1000)
	if err != nil || p.sequence != 0 || !strings.HasPrefix(string(p.payload), "\xff\xbf\x0f#HY000") {
		t.Errorf("%q, sequence id %d, %v", p.payload, p.sequence, err)
	}
}

func TestLongData(t *testing.T) {
	st := &prepared{statement: parse("INSERT INTO t VALUES (?, ?)")}
	c := &session{srv: &Server{opts: Options{MaxAllowedPacket: 10}}, prepared: map[uint32]*prepared{1: st}}
	for _, piece := range []string{
		"\x01\x00\x00\x00\x01\x00abc", "\x01\x00\x00\x00\x01\x00def",
		"\x01\x00\x00\x00\x01\x00more than fits", "\x01\x00\x00\x00\x02\x00no such parameter",
		"\x02\x00\x00\x00\x00\x00no such statement", "short",
	} {
		c.sendLongData([]byte(piece))
	}
	args, ok := st.bind([]byte("\x00\x01\x00\x00\x00\x00\x01\x01\x00\xfc\x00\xff"))
	if !ok || args[0] != int64(-1) || args[1] != "abcdef" {
		t.Error(args, ok)
	}
	args, ok = st.bind([]byte("\x00\x01\x00\x00\x00\x01\x00\x02hi")) // types as before
	if !ok || args[0] != nil || string(args[1].([]byte)) != "hi" {
		t.Error(args, ok)
	}
}

func TestBoundParameters(t *testing.T) {
	for _, c := range []struct {
		name  string
		typ   uint16
		bytes string
		want  any
	}{
		{"tiny", 0x01, "\x80", int64(-128)},
		{"unsigned tiny", 0x8001, "\x80", uint64(128)},
		{"short", 0x02, "\xfe\xff", int64(-2)},
		{"long", 0x03, "\x01\x02\x00\x00", int64(513)},
		{"longlong", 0x08, "\xff\xff\xff\xff\xff\xff\xff\xff", int64(-1)},
		{"float", 0x04, "\x00\x00\x20\x40", 2.5},
		{"double", 0x05, "\x00\x00\x00\x00\x00\x00\x04\x40", 2.5},
		{"null", 0x06, "", nil},
		{"date", 0x0a, "\x04\xe8\x07\x02\x1d", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{"datetime", 0x0c, "\x0b\xe8\x07\x02\x1d\x01\x02\x03\x40\x42\x0f\x00", time.Date(2024, 2, 29, 1, 2, 4, 0, time.UTC)},
		{"zero date", 0x0c, "\x00", time.Time{}},
		{"text", 0xfd, "\x02hi", "hi"},
	} {
		in := cursor{rest: []byte(c.bytes)}
		if got := in.param(c.typ); got != c.want || in.bad || len(in.rest) > 0 {
			t.Errorf("%s: %T %v, want %v; %+v", c.name, got, got, c.want, in)
		}
	}
}
