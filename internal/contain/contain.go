// Package contain runs user code so that whatever it does (return, panic, runtime.Goexit) becomes a result.
package contain

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// errGoexit is the value of a PanicError for runtime.Goexit, which has no value of its own.
var errGoexit = errors.New("runtime.Goexit was called")

// PanicError tells that user code panicked or called runtime.Goexit instead of returning.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // the stack of the panic or Goexit; shared by all who get this error, not to be modified
}

// Error names the value that the code panicked with. The stack is in the field.
func (e *PanicError) Error() string { return fmt.Sprintf("snowshed: panic in user code: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error) //nolint:errcheck // nil if it is none
	return err
}

// Result is what a contained function came to.
type Result[T any] struct {
	Value T
	Err   error
}

// Go runs fn in a goroutine of its own. The channel receives exactly one Result and needs no reader.
func Go[T any](fn func() (T, error)) <-chan Result[T] {
	ch := make(chan Result[T], 1)
	go func() {
		var r Result[T]
		returned := false
		defer func() {
			if !returned {
				v := recover()
				if v == nil {
					v = errGoexit
				}
				r.Err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			ch <- r
		}()
		r.Value, r.Err = fn()
		returned = true
	}()
	return ch
}

// Call runs fn on this goroutine and turns a panic into an error. A runtime.Goexit goes on: the caller must itself run
// inside [Go] if fn is code of a user's.
func Call[T any](fn func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			var zero T
			v, err = zero, &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return fn()
}

// glimpse is how long an ended ctx leaves wait to say that there is nothing to wait for.
const glimpse = 20 * time.Millisecond

// Wait calls wait in a goroutine and returns nil when it has returned, or ctx's error if ctx ends first; the goroutine
// then lives until wait returns. A wait that returns at once is seen to, even if ctx has ended before.
func Wait(ctx context.Context, wait func()) error {
	patience := ctx.Done()
	if ctx.Err() != nil {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), glimpse)
		defer cancel()
		patience = short.Done()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
		return nil
	case <-patience:
		return ctx.Err()
	}
}
