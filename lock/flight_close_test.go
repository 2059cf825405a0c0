package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/lock"
)

func TestCloseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		running := start(t.Context(), f, "k", after(time.Second, 7))
		synctest.Wait()
		f.Forget("k") // a forgotten flight is waited for too
		began := time.Now()
		assert.NoError(t, f.Close(t.Context()))
		assert.Equal(t, time.Since(began), time.Second)
		assert.Equal(t, <-running, value[int]{7, true, nil})
	})
}

func TestClosedFlightsRefuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		assert.NoError(t, f.Close(t.Context()))
		assert.NoError(t, f.Close(t.Context()), "again")
		got := do(t.Context(), f, "k", func(context.Context) (int, error) {
			t.Error("work ran after Close")
			return 1, nil
		})
		assert.ErrorIs(t, got.err, lock.ErrClosed)
		assert.Equal(t, f.Running(), 0)
	})
}

func TestCloseRefusesThoseWhoJoinWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		running := start(t.Context(), f, "k", after(time.Second, 7))
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- f.Close(t.Context()) }()
		synctest.Wait()
		assert.ErrorIs(t, do(t.Context(), f, "k", after(0, 0)).err, lock.ErrClosed)
		assert.ErrorIs(t, do(t.Context(), f, "other", after(0, 0)).err, lock.ErrClosed)
		assert.NoError(t, <-closed)
		assert.Equal(t, (<-running).v, 7)
	})
}

func TestCloseCancelsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		running := start(t.Context(), f, "k", after(time.Hour, 7))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		assert.ErrorIs(t, f.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Since(began), time.Minute)
		got := <-running
		assert.ErrorIs(t, got.err, context.Canceled)
		assert.Equal(t, time.Since(began), time.Minute, "the work was told to end")
		assert.NoError(t, f.Close(t.Context()), "now nothing runs")
	})
}

// Work that ignores its context keeps Close's goroutine, and nothing else, until it ends.
func TestCloseDoesNotWaitForTheDeaf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		running := start(t.Context(), f, "k", func(context.Context) (int, error) {
			<-time.NewTimer(time.Hour).C
			return 7, nil
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.ErrorIs(t, f.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Since(began), time.Second)
		assert.Equal(t, (<-running).v, 7)
	})
}

func TestConcurrentClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		running := start(t.Context(), f, "k", after(time.Hour, 7))
		synctest.Wait()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Second)
				defer cancel()
				if err := f.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		assert.ErrorIs(t, (<-running).err, context.Canceled)
	})
}

// Close in the middle of everything: each caller gets a value or ErrClosed, and no work starts after Close returned.
func TestCloseStress(t *testing.T) {
	t.Parallel()
	for range 200 {
		f := lock.NewFlights[int]()
		closed := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for {
					got := do(t.Context(), f, string(rune('a'+i%2)), func(context.Context) (int, error) {
						select {
						case <-closed:
							t.Error("work runs after Close")
						default:
						}
						return 7, nil
					})
					if errors.Is(got.err, lock.ErrClosed) {
						return
					}
					if got.err != nil || got.v != 7 {
						t.Errorf("got %+v", got)
						return
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				if err := f.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		close(closed)
		wg.Wait()
	}
}

func TestCloseOfIdleFlightsSucceedsWhateverItsContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		f := lock.NewFlights[int]()
		assert.Equal(t, do(t.Context(), f, "k", after(0, 7)).v, 7)
		assert.NoError(t, f.Close(ended))
	}
}
