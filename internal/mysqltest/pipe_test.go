package mysqltest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestPipeCarriesMoreThanItHolds(t *testing.T) {
	a, b := newPipe()
	sent := bytes.Repeat([]byte("snow"), pipeCapacity)
	go func() {
		_, _ = a.Write(sent)
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
	}
	if _, err := b.Write([]byte("late")); !errors.Is(err, syscall.EPIPE) {
		t.Error("write to a closed peer:", err)
	}
	_ = b.Close()
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error("read after Close:", err)
	}
	if _, err := b.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error("write after Close:", err)
	}
}

func TestPipeWriteDoesNotWaitForARead(t *testing.T) {
	a, b := newPipe()
	if _, err := a.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	a.reset()
	if _, err := b.Read(make([]byte, 5)); !errors.Is(err, syscall.ECONNRESET) {
		t.Error("a reset loses what is in flight; read says", err)
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipe()
		read := func() (time.Duration, error) {
			began := time.Now()
			_, err := a.Read(make([]byte, 1))
			return time.Since(began), err
		}
		_ = a.SetReadDeadline(time.Now().Add(time.Second))
		if took, err := read(); took != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(took, err)
		}
		if took, err := read(); took != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the deadline stays:", took, err)
		}
		_ = a.SetDeadline(time.Time{})
		go func() {
			<-time.After(time.Minute)
			_, _ = b.Write([]byte("x"))
		}()
		if took, err := read(); took != time.Minute || err != nil {
			t.Error(took, err)
		}
		go func() { // moved during a read
			<-time.After(time.Minute)
			_ = a.SetReadDeadline(time.Now())
		}()
		if took, err := read(); took != time.Minute || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(took, err)
		}
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, pipeCapacity+1))
		if n != pipeCapacity || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(n, err)
		}
	})
}
