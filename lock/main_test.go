package lock_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/lock"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

// pass lets d go by on the clock of a bubble, or returns at once if ctx ends.
func pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// value is the result of one wait.
type value[T any] struct {
	v   T
	led bool
	err error
}

// do joins the flight of key and waits for its end.
func do[T any](ctx context.Context, f *lock.Flights[T], key string, run func(context.Context) (T, error)) value[T] {
	ticket, err := f.Join(ctx, key, run)
	if err != nil {
		return value[T]{err: err}
	}
	v, led, err := ticket.Wait(ctx, nil)
	return value[T]{v, led, err}
}

// start is do in a goroutine of its own.
func start[T any](ctx context.Context, f *lock.Flights[T], key string, run func(context.Context) (T, error)) <-chan value[T] {
	ch := make(chan value[T], 1)
	go func() { ch <- do(ctx, f, key, run) }()
	return ch
}

// after is work that takes d and returns v.
func after[T any](d time.Duration, v T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		pass(ctx, d)
		return v, ctx.Err()
	}
}
