package contain_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/contain"
	"github.com/snowshed-go/snowshed/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

var errWork = errors.New("work failed")

func explode(value any) (int, error) { panic(value) }

func exit() (int, error) {
	runtime.Goexit()
	return 1, nil
}

func TestReturnedValuesPassAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, run := range []func(func() (int, error)) (int, error){viaGo, contain.Call[int]} {
		v, err := run(func() (int, error) { return 7, nil })
		assert.NoError(t, err)
		assert.Equal(t, v, 7)
		v, err = run(func() (int, error) { return 7, errWork })
		assert.True(t, err == errWork, "the very error") //nolint:errorlint // the very error
		assert.Equal(t, v, 7)
	}
}

func viaGo(fn func() (int, error)) (int, error) {
	r := <-contain.Go(fn)
	return r.Value, r.Err
}

func TestPanicBecomesAnError(t *testing.T) {
	t.Parallel()
	for _, run := range []func(func() (int, error)) (int, error){viaGo, contain.Call[int]} {
		for _, value := range []any{"boom", 42, struct{ a int }{1}} {
			v, err := run(func() (int, error) { return explode(value) })
			p := assert.ErrorAs[*contain.PanicError](t, err)
			assert.Equal(t, v, 0)
			assert.Equal(t, p.Value, value)
			assert.Equal(t, errors.Unwrap(err), nil)
			assert.True(t, strings.Contains(string(p.Stack), "explode"), "the stack shows where")
		}
	}
}

func TestPanicWithAnErrorUnwrapsToIt(t *testing.T) {
	t.Parallel()
	for _, run := range []func(func() (int, error)) (int, error){viaGo, contain.Call[int]} {
		_, err := run(func() (int, error) { return explode(errWork) })
		assert.ErrorIs(t, err, errWork)
		assert.True(t, strings.Contains(err.Error(), errWork.Error()))
	}
}

func TestPanicWithNil(t *testing.T) {
	t.Parallel()
	for _, run := range []func(func() (int, error)) (int, error){viaGo, contain.Call[int]} {
		_, err := run(func() (int, error) { return explode(nil) })
		assert.ErrorAs[*contain.PanicError](t, err)
		assert.ErrorAs[*runtime.PanicNilError](t, err)
	}
}

func TestGoexitBecomesAnError(t *testing.T) {
	t.Parallel()
	v, err := viaGo(exit)
	p := assert.ErrorAs[*contain.PanicError](t, err)
	assert.Equal(t, v, 0)
	assert.True(t, strings.Contains(err.Error(), "Goexit"), err)
	assert.True(t, strings.Contains(string(p.Stack), "contain_test.exit"), "the stack shows where: "+string(p.Stack))
}

// A panic in a deferred call takes the place of an earlier one; a Goexit in a deferred call does so too.
func TestNestedEnds(t *testing.T) {
	t.Parallel()
	_, err := viaGo(func() (int, error) {
		defer panic("second")
		panic("first")
	})
	assert.Equal(t, assert.ErrorAs[*contain.PanicError](t, err).Value, any("second"))
	_, err = viaGo(func() (int, error) {
		defer runtime.Goexit()
		panic("first")
	})
	assert.ErrorAs[*contain.PanicError](t, err)
	_, err = viaGo(func() (v int, err error) {
		defer func() { _ = recover(); v = 3 }()
		panic("recovered by the code itself")
	})
	assert.NoError(t, err)
}

// Call cannot hold back a Goexit, but around it Go does.
func TestCallInsideGoContainsGoexit(t *testing.T) {
	t.Parallel()
	_, err := viaGo(func() (int, error) { return contain.Call(exit) })
	assert.ErrorAs[*contain.PanicError](t, err)
}

func TestGoNeedsNoReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ch := contain.Go(func() (int, error) { return 1, nil })
		synctest.Wait() // the goroutine is gone, or the bubble would complain at its end
		assert.Equal(t, len(ch), 1)
	})
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		assert.NoError(t, contain.Wait(t.Context(), func() {}))

		started := time.Now()
		work := func(d time.Duration) func() { return func() { <-time.NewTimer(d).C } }
		assert.NoError(t, contain.Wait(t.Context(), work(time.Minute)))
		assert.Equal(t, time.Since(started), time.Minute)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, contain.Wait(ctx, work(time.Minute)), context.DeadlineExceeded)
		assert.Equal(t, time.Since(started), time.Minute+time.Second)
		<-time.NewTimer(time.Hour).C // the abandoned goroutine ends with its work
	})
}

// Who asks with a ctx that has ended wants to know whether the work has.
func TestWaitWithAnEndedContextSeesThatNothingRuns(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		assert.NoError(t, contain.Wait(ended, func() {}))
	}
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.NoError(t, contain.Wait(ended, func() {}))
		assert.ErrorIs(t, contain.Wait(ended, func() { <-time.NewTimer(time.Minute).C }), context.Canceled)
		<-time.NewTimer(time.Hour).C
	})
}
