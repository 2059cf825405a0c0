package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/lock"
)

func TestForgetMakesTheNextCallerLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := lock.NewFlights[int]()
		began := time.Now()
		one := start(t.Context(), f, "k", after(3*time.Second, 1))
		synctest.Wait()
		joined := start(t.Context(), f, "k", after(0, 0))
		synctest.Wait()
		other := start(t.Context(), f, "other", after(3*time.Second, 10))
		synctest.Wait()

		f.Forget("k")
		assert.Equal(t, f.Running(), 1, "the forgotten one is not counted, the other key's is")
		two := start(t.Context(), f, "k", after(time.Second, 2))
		synctest.Wait()
		assert.Equal(t, f.Running(), 2)

		assert.Equal(t, <-two, value[int]{2, true, nil}, "side by side with the forgotten one")
		assert.Equal(t, time.Since(began), time.Second)
		three := start(t.Context(), f, "k", after(5*time.Second, 3))
		assert.Equal(t, <-one, value[int]{1, true, nil}, "which goes on to its own waiters")
		assert.Equal(t, <-joined, value[int]{1, false, nil})
		assert.Equal(t, <-other, value[int]{10, true, nil})
		assert.Equal(t, f.Running(), 1, "the end of the forgotten one does not end the newer one's place")
		four := start(t.Context(), f, "k", after(0, 4))
		assert.Equal(t, <-four, value[int]{3, false, nil})
		assert.Equal(t, <-three, value[int]{3, true, nil})
	})
}

func TestForgetWithoutAFlight(t *testing.T) {
	t.Parallel()
	f := lock.NewFlights[int]()
	f.Forget("k")
	assert.Equal(t, do(t.Context(), f, "k", after(0, 1)), value[int]{1, true, nil})
	f.Forget("k")
	assert.Equal(t, do(t.Context(), f, "k", after(0, 2)), value[int]{2, true, nil})
	assert.NoError(t, f.Close(t.Context()))
}

// An invalidation forgets the flight and is acknowledged. Whoever comes later must not get what was read before it.
func TestForgetStress(t *testing.T) {
	t.Parallel()
	f := lock.NewFlights[int64]()
	var version, acknowledged atomic.Int64
	read := func(context.Context) (int64, error) {
		v := version.Load()
		for range 3 {
			runtime.Gosched()
		}
		return v, nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 20_000 {
			v := version.Add(1)
			f.Forget("k")
			acknowledged.Store(v)
		}
	})
	for range 4 {
		wg.Go(func() {
			for acknowledged.Load() < 20_000 {
				before := acknowledged.Load()
				if got := do(t.Context(), f, "k", read); got.err != nil || got.v < before {
					t.Errorf("version %d was acknowledged, got %+v", before, got)
					return
				}
			}
		})
	}
	wg.Wait()
	assert.NoError(t, f.Close(t.Context()))
	assert.Equal(t, f.Running(), 0)
}

// A flight that is forgotten at the very moment when it starts must not take the place of its successor.
func TestForgetAtTheStart(t *testing.T) {
	t.Parallel()
	f := lock.NewFlights[int]()
	for round := range 20_000 {
		key := fmt.Sprint("k", round%7)
		release := make(chan struct{})
		blocked := func(context.Context) (int, error) {
			<-release
			return 1, nil
		}
		first, err := f.Join(t.Context(), key, blocked)
		assert.NoError(t, err)
		f.Forget(key)
		assert.Equal(t, f.Running(), 0, "round ", round)
		second, err := f.Join(t.Context(), key, blocked)
		assert.NoError(t, err)
		assert.Equal(t, f.Running(), 1, "round ", round)
		close(release)
		_, led, _ := first.Wait(t.Context(), nil)
		assert.True(t, led)
		_, led, _ = second.Wait(t.Context(), nil)
		assert.True(t, led)
		assert.Equal(t, f.Running(), 0, "round ", round)
	}
}
