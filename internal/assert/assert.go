// Package assert has the few checks that the tests of this project need.
//
// Every check except Eventually's condition stops the test when it fails, so call them from the goroutine of the test.
// The optional trailing arguments say what was being checked; they are joined as by fmt.Sprint.
package assert

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// NoError stops the test when err is not nil.
func NoError(tb testing.TB, err error, what ...any) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%sunexpected error: %v", prefix(what), err)
	}
}

// Error stops the test when err is nil.
func Error(tb testing.TB, err error, what ...any) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("%sno error, want one", prefix(what))
	}
}

// ErrorIs stops the test when err does not match target in the sense of errors.Is.
func ErrorIs(tb testing.TB, err, target error, what ...any) {
	tb.Helper()
	if !errors.Is(err, target) {
		tb.Fatalf("%serror is %v, want %v", prefix(what), err, target)
	}
}

// ErrorAs gives the first error of type E in err's tree, and stops the test when there is none.
func ErrorAs[E error](tb testing.TB, err error, what ...any) E {
	tb.Helper()
	target, ok := errors.AsType[E](err)
	if !ok {
		tb.Fatalf("%serror is %v (%T), want a %s", prefix(what), err, err, reflect.TypeFor[E]())
	}
	return target
}

// Equal stops the test when got and want are not deeply equal. A nil slice or map does not equal an empty one.
func Equal[T any](tb testing.TB, got, want T, what ...any) {
	tb.Helper()
	if !reflect.DeepEqual(got, want) {
		tb.Fatalf("%sgot %#v, want %#v", prefix(what), got, want)
	}
}

// True stops the test when ok is false.
func True(tb testing.TB, ok bool, what ...any) {
	tb.Helper()
	if !ok {
		tb.Fatalf("%sfalse, want true", prefix(what))
	}
}

// Eventually asks cond every millisecond until it is true, and stops the test when that takes longer than within.
// In a synctest bubble the time is that of the bubble.
func Eventually(tb testing.TB, within time.Duration, cond func() bool, what ...any) {
	tb.Helper()
	if cond() {
		return
	}
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if cond() {
				return
			}
		case <-deadline.C:
			if cond() {
				return
			}
			tb.Fatalf("%snot true within %v", prefix(what), within)
		}
	}
}

func prefix(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprint(what...) + ": "
}
