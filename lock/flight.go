package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/snowshed-go/snowshed/internal/contain"
)

// The errors of a flight itself, as opposed to those of the work that it runs.
var (
	// ErrClosed says that the Flights were closed.
	ErrClosed = errors.New("lock: flights are closed")
	// ErrCycle says that work asked for a key whose own work waits for it: it would have waited for itself for ever.
	ErrCycle = errors.New("lock: the work for a key waits for itself")
	// ErrPatience says that the wait ended because its patience did; the flight goes on.
	ErrPatience = errors.New("lock: patience ended before the flight")
)

// Flights coalesces concurrent work on the same key into one run (a flight), whose result all waiters share. A flight
// belongs to no caller: it runs on a context that keeps the first caller's values but not its end, so a caller that
// leaves stops nothing. Panics and runtime.Goexit in the work reach the waiters as errors.
//
// It is safe for concurrent use. Close ends it.
type Flights[T any] struct {
	group singleflight.Group

	mu      sync.Mutex
	running map[string]*flight // the newest of each key, as in group; a forgotten one is not in it
	wg      sync.WaitGroup
	closed  bool
	cancels chan struct{} // closed when running work is to be cancelled
}

// NewFlights returns an open Flights.
func NewFlights[T any]() *Flights[T] {
	return &Flights[T]{running: make(map[string]*flight), cancels: make(chan struct{})}
}

// Ticket is one caller's place in a flight. It belongs to one goroutine.
type Ticket[T any] struct {
	ch    <-chan singleflight.Result
	led   bool
	leave func()
}

// Join boards the flight of key, or starts it with run. It returns at once: ErrClosed after Close, ErrCycle if ctx is
// that of a flight which key's flight waits for.
func (f *Flights[T]) Join(ctx context.Context, key string, run func(context.Context) (T, error)) (Ticket[T], error) {
	parent, _ := ctx.Value(flightKey{}).(*flight) //nolint:errcheck // most callers are no flight
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return Ticket[T]{}, ErrClosed
	}
	target, joined := f.running[key]
	if !joined {
		target = new(flight)
	}
	leave, err := parent.waitFor(target)
	if err != nil {
		return Ticket[T]{}, err
	}
	if !joined {
		f.running[key] = target
		f.wg.Add(1)
	}
	ch := f.group.DoChan(key, func() (any, error) { return f.fly(ctx, key, target, run) })
	return Ticket[T]{ch: ch, led: !joined, leave: leave}, nil
}

// fly runs the work of me in a goroutine of its own, where whatever it does becomes a result.
func (f *Flights[T]) fly(ctx context.Context, key string, me *flight, run func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), flightKey{}, me))
	ch := contain.Go(func() (T, error) { return run(ctx) })
	var r contain.Result[T]
	select {
	case r = <-ch:
	case <-f.cancels:
		cancel()
		r = <-ch
	}
	cancel()

	me.end()
	f.mu.Lock()
	if f.running[key] == me {
		f.forget(key)
	}
	f.mu.Unlock()
	f.wg.Done()
	return r.Value, r.Err
}

// forget frees the place of key in both tables, which must agree whenever mu is free.
func (f *Flights[T]) forget(key string) {
	f.group.Forget(key)
	delete(f.running, key)
}

// Wait returns the flight's result, ctx's error if ctx ends first, or ErrPatience if patience receives first (a nil
// channel never does). led reports whether this ticket's own work ran. Leaving early ends nothing. Call it until it
// returns anything but ErrPatience, or call Leave.
func (t Ticket[T]) Wait(ctx context.Context, patience <-chan time.Time) (v T, led bool, err error) {
	select {
	case r := <-t.ch:
		t.leave()
		v, _ = r.Val.(T) //nolint:errcheck // an untyped nil is a nil T of an interface type
		return v, t.led, r.Err
	case <-ctx.Done():
		t.leave()
		return v, false, ctx.Err()
	case <-patience:
		return v, false, ErrPatience
	}
}

// Leave gives up the place after an ErrPatience.
func (t Ticket[T]) Leave() { t.leave() }

// Detach returns a context for work that outlives ctx and that the flight in ctx, if there is one, does not wait for. It
// keeps ctx's other values.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), flightKey{}, (*flight)(nil))
}

// Forget makes the next Join of key start a new flight. The running one goes on to its own waiters.
func (f *Flights[T]) Forget(key string) {
	f.mu.Lock()
	f.forget(key)
	f.mu.Unlock()
}

// Running returns how many keys have a flight that was not forgotten.
func (f *Flights[T]) Running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.running)
}

// Close refuses new flights and waits for the running ones. When ctx ends it cancels their contexts and returns ctx's
// error without waiting further. It may be called again.
func (f *Flights[T]) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	err := contain.Wait(ctx, f.wg.Wait)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		select {
		case <-f.cancels:
		default:
			close(f.cancels)
		}
	}
	return err
}
