package protection_test

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// recorder keeps the events that it was told.
type recorder struct {
	mu   sync.Mutex
	seen []observe.Event
}

func (r *recorder) Observe(e observe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, e)
}

// told returns the kinds of the events so far, once all have arrived. It is for synctest bubbles.
func (r *recorder) told() (kinds []observe.Kind) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.seen {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestBreakerListenerMayCallTheBreakerAndPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *protection.Breaker
		var seen []string
		ready := make(chan struct{})
		b = newBreaker(t, protection.BreakerOptions{Name: "db", Observer: observe.Func(func(e observe.Event) {
			<-ready
			_ = b.Ready() // would hang under a lock
			_ = b.Snapshot()
			seen = append(seen, fmt.Sprint(e.Kind, " ", e.Level, " ", e.Source, ": ", e.Message))
			if len(seen) == 1 {
				b.ForceClosed(time.Now())
			}
			panic(errors.New("a listener's panic stays with it"))
		})})
		calls(t, b, 21, protection.Failure)
		assert.Equal(t, b.State(), protection.Open, "while the listener is slow")
		close(ready)
		synctest.Wait()
		assert.Equal(t, b.State(), protection.Closed)
		assert.Equal(t, seen, []string{
			"breaker.opened critical db: circuit breaker opened: 21 of 21 calls failed or timed out within 10s",
			"breaker.closed info db: circuit breaker closed: forced",
		})
	})
}

func TestBreakerTellsTripsAndRecoveriesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := newBreaker(t, protection.BreakerOptions{Observer: &r})
		for range 50 {
			calls(t, b, 21, protection.Failure)
			advance(5 * time.Second)
			calls(t, b, 1, protection.Success)
		}
		kinds := r.told()
		assert.Equal(t, len(kinds), 100)
		for i, k := range kinds {
			assert.Equal(t, k, []observe.Kind{observe.BreakerOpened, observe.BreakerClosed}[i%2], i)
		}
	})
}

func TestBreakerSlowListenerHearsAllInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		listen := make(chan struct{})
		b := newBreaker(t, protection.BreakerOptions{Observer: observe.Func(func(e observe.Event) {
			<-listen
			heard = append(heard, e.Message)
		})})
		want := make([]string, 50)
		for i := range want {
			b.ForceOpen(strconv.Itoa(i), time.Time{})
			want[i] = "circuit breaker opened: forced: " + strconv.Itoa(i)
		}
		synctest.Wait()
		close(listen)
		synctest.Wait()
		assert.Equal(t, heard, want)
	})
}

// Many calls see at once that it is one too many.
func TestBreakerTellsATransitionOnce_stress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := newBreaker(t, protection.BreakerOptions{Observer: &r})
		for i := range 100 {
			together(16, func(int) {
				for range 10 {
					if permit, err := b.Acquire(t.Context()); err == nil {
						permit.Done(protection.Failure)
					}
				}
			})
			assert.Equal(t, len(r.told()), 2*i+1, "one trip")
			advance(5 * time.Second)
			calls(t, b, 1, protection.Success)
			assert.Equal(t, len(r.told()), 2*i+2, "one recovery")
		}
	})
}

func TestBreakerListenerThatLeavesItsGoroutineStopsNoEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		b := newBreaker(t, protection.BreakerOptions{Observer: observe.Func(func(observe.Event) {
			seen++
			runtime.Goexit()
		})})
		for range 3 {
			b.ForceOpen("test", time.Time{})
		}
		synctest.Wait()
		assert.Equal(t, seen, 3)
	})
}

func TestBreakerStuckListenerCostsBoundedMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var seen []string
		b := newBreaker(t, protection.BreakerOptions{Observer: observe.Func(func(e observe.Event) {
			<-stuck
			seen = append(seen, e.Message)
		})})
		const events = 10_000
		for i := range events {
			b.ForceOpen(strconv.Itoa(i), time.Time{})
		}
		close(stuck)
		synctest.Wait()
		assert.True(t, len(seen) > 100 && len(seen) < 1000, len(seen))
		for i, message := range seen[:100] {
			assert.Equal(t, message, fmt.Sprint("circuit breaker opened: forced: ", i), "the oldest are kept")
		}
	})
}
