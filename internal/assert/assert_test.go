package assert_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

// recorder is a testing.TB that notes a failure instead of failing.
type recorder struct {
	testing.TB
	message string
}

type stopped struct{}

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	panic(stopped{})
}

// failure gives the message with which check failed, or "" when it did not.
func failure(t *testing.T, check func(*recorder)) (message string) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if p := recover(); p != nil && p != (stopped{}) {
			panic(p)
		}
		message = r.message
	}()
	check(r)
	return r.message
}

func TestChecks(t *testing.T) {
	missing := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	plain := errors.New("plain")
	tests := []struct {
		name  string
		check func(*recorder)
		want  string
	}{
		{"NoError passes", func(r *recorder) { assert.NoError(r, nil) }, ""},
		{"NoError fails", func(r *recorder) { assert.NoError(r, plain, "call ", 2) }, "call 2: unexpected error: plain"},
		{"Error passes", func(r *recorder) { assert.Error(r, plain) }, ""},
		{"Error fails", func(r *recorder) { assert.Error(r, nil) }, "no error, want one"},
		{"ErrorIs passes", func(r *recorder) { assert.ErrorIs(r, missing, fs.ErrNotExist) }, ""},
		{"ErrorIs fails", func(r *recorder) { assert.ErrorIs(r, plain, fs.ErrExist) }, "error is plain, want file already exists"},
		{"ErrorIs fails on nil", func(r *recorder) { assert.ErrorIs(r, nil, fs.ErrExist) }, "error is <nil>, want file already exists"},
		{"ErrorAs passes", func(r *recorder) { assert.Equal(r, assert.ErrorAs[*fs.PathError](r, missing), missing) }, ""},
		{"ErrorAs fails", func(r *recorder) { assert.ErrorAs[*fs.PathError](r, plain) }, "error is plain (*errors.errorString), want a *fs.PathError"},
		{"Equal passes", func(r *recorder) { assert.Equal(r, []int{1}, []int{1}) }, ""},
		{"Equal fails", func(r *recorder) { assert.Equal(r, 1, 2, "count") }, "count: got 1, want 2"},
		{"Equal tells nil from empty", func(r *recorder) { assert.Equal(r, nil, []int{}) }, "got []int(nil), want []int{}"},
		{"True passes", func(r *recorder) { assert.True(r, true) }, ""},
		{"True fails", func(r *recorder) { assert.True(r, false, "open") }, "open: false, want true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := failure(t, tt.check); got != tt.want {
				t.Errorf("message %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		after := func(d time.Duration) func() bool { return func() bool { return time.Since(start) >= d } }
		message := failure(t, func(r *recorder) { assert.Eventually(r, time.Second, after(time.Second)) })
		if message != "" {
			t.Errorf("failed with %q although the condition held at the deadline", message)
		}
		start = time.Now()
		message = failure(t, func(r *recorder) { assert.Eventually(r, time.Second, after(time.Hour), "never") })
		if want := "never: not true within 1s"; message != want {
			t.Errorf("message %q, want %q", message, want)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("gave up after %v, want 1s", waited)
		}
	})
}
