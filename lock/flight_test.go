package lock_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/lock"
)

func TestManyCallersOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		var runs atomic.Int32
		work := func(ctx context.Context) (int, error) {
			runs.Add(1)
			return after(time.Second, 7)(ctx)
		}
		waiting := make([]<-chan value[int], 0, 100)
		for range 100 {
			waiting = append(waiting, start(t.Context(), f, "k", work))
		}
		other := start(t.Context(), f, "other", after(time.Second, 8))
		synctest.Wait()
		assert.Equal(t, f.Running(), 2)
		led := 0
		for _, ch := range waiting {
			got := <-ch
			assert.NoError(t, got.err)
			assert.Equal(t, got.v, 7)
			if got.led {
				led++
			}
		}
		assert.Equal(t, led, 1, "one caller led")
		assert.Equal(t, runs.Load(), 1)
		assert.Equal(t, (<-other).v, 8, "another key has a flight of its own")
		assert.Equal(t, f.Running(), 0)
	})
}

// bucketeer#2552, spicedb#925: the caller whose work runs is cancelled while another waits.
func TestFirstCallerCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		var runs atomic.Int32
		work := func(ctx context.Context) (int, error) {
			runs.Add(1)
			return after(50*time.Millisecond, 7)(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		first := start(ctx, f, "k", work)
		synctest.Wait()
		second := start(t.Context(), f, "k", work)

		began := time.Now()
		assert.ErrorIs(t, (<-first).err, context.DeadlineExceeded)
		assert.Equal(t, time.Since(began), 10*time.Millisecond)
		got := <-second
		assert.NoError(t, got.err)
		assert.Equal(t, got.v, 7)
		assert.True(t, !got.led)
		assert.Equal(t, time.Since(began), 50*time.Millisecond)
		assert.Equal(t, runs.Load(), 1)
	})
}

func TestWorkGoesOnWhenAllHaveLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		ctx, cancel := context.WithCancel(t.Context())
		var finished atomic.Bool
		left := start(ctx, f, "k", func(ctx context.Context) (int, error) {
			v, err := after(time.Second, 7)(ctx)
			finished.Store(err == nil)
			return v, err
		})
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, (<-left).err, context.Canceled)
		assert.Equal(t, f.Running(), 1)
		pass(t.Context(), 2*time.Second)
		assert.True(t, finished.Load())
		assert.Equal(t, f.Running(), 0)
	})
}

func TestOneOfThreeLeavesAFourthJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		var runs atomic.Int32
		join := func(patience time.Duration) <-chan value[int] {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			return start(ctx, f, "k", func(ctx context.Context) (int, error) {
				runs.Add(1)
				return after(100*time.Millisecond, 7)(ctx)
			})
		}
		began := time.Now()
		a, b, c := join(time.Second), join(20*time.Millisecond), join(60*time.Millisecond)
		assert.ErrorIs(t, (<-b).err, context.DeadlineExceeded)
		assert.Equal(t, time.Since(began), 20*time.Millisecond)
		d := join(time.Second)
		assert.ErrorIs(t, (<-c).err, context.DeadlineExceeded)
		assert.Equal(t, time.Since(began), 60*time.Millisecond, "each leaves on its own deadline")
		assert.Equal(t, (<-a).v, 7)
		assert.Equal(t, (<-d).v, 7)
		assert.Equal(t, time.Since(began), 100*time.Millisecond)
		assert.Equal(t, runs.Load(), 1)
	})
}

// The work keeps the first caller's values, and neither its end nor its deadline.
func TestContextOfTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		f := lock.NewFlights[any]()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "mine"), time.Hour)
		defer cancel()
		inside := make(chan context.Context, 1)
		got := do(ctx, f, "k", func(ctx context.Context) (any, error) {
			inside <- ctx
			_, has := ctx.Deadline()
			assert.True(t, !has)
			return ctx.Value(key{}), ctx.Err()
		})
		assert.NoError(t, got.err)
		assert.Equal(t, got.v, any("mine"))
		synctest.Wait()
		assert.ErrorIs(t, (<-inside).Err(), context.Canceled, "what the work left behind is told that it ended")
	})
}

// golang/go#41133: a panic or Goexit reaches all waiters, and the next call works.
func TestPanicAndGoexitReachAllWaiters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func()
		value string
	}{
		"panic":             {func() { panic("boom") }, "boom"},
		"panic with error":  {func() { panic(io.ErrUnexpectedEOF) }, io.ErrUnexpectedEOF.Error()},
		"Goexit":            {runtime.Goexit, "Goexit"},
		"runtime error":     {func() { _ = []int{}[len("k")] }, "index out of range"},
		"panic in deferred": {func() { defer panic("second"); panic("first") }, "second"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := lock.NewFlights[int]()
				waiting := make([]<-chan value[int], 0, 10)
				for range 10 {
					waiting = append(waiting, start(t.Context(), f, "k", func(ctx context.Context) (int, error) {
						pass(ctx, time.Second)
						c.end()
						return 1, nil
					}))
				}
				for _, ch := range waiting {
					got := <-ch
					p := assert.ErrorAs[*loader.PanicError](t, got.err)
					assert.Equal(t, got.v, 0)
					assert.True(t, strings.Contains(p.Error(), c.value), p)
					assert.True(t, strings.Contains(string(p.Stack), "flight_test.go"), "the stack leads to the work")
				}
				assert.Equal(t, f.Running(), 0)
				assert.Equal(t, do(t.Context(), f, "k", after(0, 7)), value[int]{7, true, nil}, "the next call works")
			})
		})
	}
}

// A waiter never gets a zero value with a nil error that the work did not return.
func TestResultsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	values := lock.NewFlights[int]()
	assert.Equal(t, do(t.Context(), values, "k", func(context.Context) (int, error) { return 7, failure }),
		value[int]{7, true, failure}, "a value beside an error")

	pointers := lock.NewFlights[*int]()
	assert.Equal(t, do(t.Context(), pointers, "k", after[*int](0, nil)), value[*int]{led: true})

	interfaces := lock.NewFlights[error]()
	assert.Equal(t, do(t.Context(), interfaces, "k", after[error](0, nil)), value[error]{led: true})
	assert.Equal(t, do(t.Context(), interfaces, "k", after(0, failure)), value[error]{failure, true, nil})
}

func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		ticket, err := f.Join(t.Context(), "k", after(time.Second, 7))
		assert.NoError(t, err)
		for range 3 {
			v, led, err := ticket.Wait(t.Context(), time.NewTimer(100*time.Millisecond).C)
			assert.ErrorIs(t, err, lock.ErrPatience)
			assert.True(t, v == 0 && !led)
		}
		v, led, err := ticket.Wait(t.Context(), nil)
		assert.NoError(t, err)
		assert.True(t, v == 7 && led, "the same ticket still gets the result")
		ticket.Leave()

		ticket, err = f.Join(t.Context(), "k", after(time.Second, 8))
		assert.NoError(t, err)
		_, _, err = ticket.Wait(t.Context(), time.NewTimer(100*time.Millisecond).C)
		assert.ErrorIs(t, err, lock.ErrPatience)
		ticket.Leave()
		ticket.Leave()
		assert.Equal(t, f.Running(), 1, "who leaves stops nothing")
		assert.Equal(t, do(t.Context(), f, "k", after(time.Second, 9)), value[int]{8, false, nil})
	})
}
