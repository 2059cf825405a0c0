package protection_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

func newPool(t *testing.T, o protection.PoolOptions) *protection.Pool {
	t.Helper()
	p, err := protection.NewPool(o)
	assert.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close(context.Background())) })
	return p
}

// hang is work that ignores its ctx for d.
func hang(d time.Duration) func(context.Context) error {
	return func(context.Context) error { advance(d); return nil }
}

func nothing(context.Context) error { return nil }

func TestPoolRunsAndReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Workers: 2})
		boom := errors.New("boom")
		v, err := protection.PoolValue(t.Context(), p, func(context.Context) (int, error) { return 7, boom })
		assert.Equal(t, v, 7)
		assert.Equal(t, err, boom)
		assert.NoError(t, p.Do(t.Context(), nothing))
		synctest.Wait()
		assert.Equal(t, p.Stats(), protection.PoolStats{Workers: 2})
	})
}

func TestPoolBoundsWhatRunsAndWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Name: "disk", Workers: 2, MaxQueue: 3})
		var full, ran atomic.Int64
		start := time.Now()
		for range 10 {
			go func() {
				err := p.Do(t.Context(), hang(100*time.Millisecond))
				if err == nil {
					ran.Add(1)
					return
				}
				assert.ErrorIs(t, err, protection.ErrFull)
				assert.ErrorIs(t, err, protection.ErrRejected)
				assert.Equal(t, time.Since(start), 0, "refused at once")
				full.Add(1)
			}()
		}
		synctest.Wait()
		assert.Equal(t, p.Stats(), protection.PoolStats{Workers: 2, Running: 2, Queued: 3, Rejected: 5})
		advance(time.Second)
		synctest.Wait()
		assert.Equal(t, []int64{ran.Load(), full.Load()}, []int64{5, 5})
	})
}

// See hystrix-go: the slot of a call that had timed out was free while its work ran on.
func TestPoolSlotIsFreeOnlyWhenTheWorkEnds_regression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Name: "disk", Workers: 1, Timeout: 50 * time.Millisecond})
		start := time.Now()
		err := p.Do(t.Context(), hang(time.Second))
		assert.Equal(t, time.Since(start), 50*time.Millisecond)
		assert.Equal(t, *assert.ErrorAs[*protection.TimeoutError](t, err), protection.TimeoutError{Name: "disk", After: 50 * time.Millisecond})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, protection.ErrExecutionTimeout)
		assert.True(t, !errors.Is(err, protection.ErrRejected), "it has started")
		assert.Equal(t, protection.Classify(err), protection.Timeout)
		assert.Equal(t, p.Zombies(), 1)
		assert.ErrorIs(t, p.Do(t.Context(), nothing), protection.ErrFull)
		advance(950 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, p.Stats(), protection.PoolStats{Workers: 1, Rejected: 1})
		assert.NoError(t, p.Do(t.Context(), nothing))
	})
}

func TestPoolTimeoutEndsTheCtxOfTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Workers: 1, Timeout: 50 * time.Millisecond})
		for range 100 { // the caller and the work wake at once, and either may be first
			v, err := protection.PoolValue(t.Context(), p, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), protection.ErrExecutionTimeout)
				return 7, nil
			})
			assert.ErrorIs(t, err, protection.ErrExecutionTimeout, "also if nil comes back later")
			assert.Equal(t, v, 0)
			synctest.Wait()
			assert.Equal(t, p.Zombies(), 0)
		}
	})
}

func TestPoolCallerLeavesInEachPhase(t *testing.T) {
	t.Parallel()
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, protection.PoolOptions{Workers: 1})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			assert.Equal(t, p.Do(ctx, func(context.Context) error { t.Error("ran"); return nil }), context.Canceled)
			synctest.Wait()
		})
	})
	t.Run("queued", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, protection.PoolOptions{Workers: 1, MaxQueue: 1})
			go func() { assert.NoError(t, p.Do(t.Context(), hang(500*time.Millisecond))) }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			assert.Equal(t, p.Do(ctx, func(context.Context) error { t.Error("ran"); return nil }), context.DeadlineExceeded)
			assert.Equal(t, p.Stats().Queued, 0)
			assert.NoError(t, p.Do(t.Context(), nothing), "its place is free at once")
		})
	})
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, protection.PoolOptions{Workers: 1})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			assert.Equal(t, p.Do(ctx, hang(time.Second)), context.DeadlineExceeded)
			assert.Equal(t, time.Since(start), 100*time.Millisecond)
			assert.Equal(t, p.Zombies(), 1)
			advance(time.Second)
			synctest.Wait()
			assert.Equal(t, p.Zombies(), 0)
		})
	})
}

func TestPoolTaskPastMaxWaitNeverRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Workers: 1, MaxQueue: 100, MaxWait: 100 * time.Millisecond})
		go func() { assert.NoError(t, p.Do(t.Context(), hang(100*time.Millisecond))) }()
		synctest.Wait()
		start := time.Now()
		for range 100 { // the worker is free at the very instant at which they must leave
			go func() {
				err := p.Do(t.Context(), func(context.Context) error { t.Error("ran"); return nil })
				assert.ErrorIs(t, err, protection.ErrWaitTimeout)
				assert.Equal(t, time.Since(start), 100*time.Millisecond)
			}()
		}
		advance(time.Second)
		synctest.Wait()
		assert.Equal(t, p.Stats(), protection.PoolStats{Workers: 1, Rejected: 100})
	})
}

func TestPoolServesNewestFirstWhileTheQueueStands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy time.Duration
		want []int
	}{"young": {499 * time.Millisecond, []int{0, 1, 2}}, "stands": {500 * time.Millisecond, []int{2, 1, 0}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, protection.PoolOptions{Workers: 1, MaxQueue: 5})
				go func() { _ = p.Do(t.Context(), hang(c.busy)) }()
				synctest.Wait()
				var order []int
				for i := range 3 {
					go func() {
						_ = p.Do(t.Context(), func(context.Context) error { order = append(order, i); return nil })
					}()
					synctest.Wait()
				}
				advance(c.busy)
				synctest.Wait()
				assert.Equal(t, order, c.want)
			})
		})
	}
}

// See ants#146.
func TestPoolWorkersSurviveWhatTasksDo_regression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Workers: 3, MaxQueue: 10})
		boom := errors.New("boom")
		for name, fn := range map[string]func(context.Context) error{
			"panic":  func(context.Context) error { panic(boom) },
			"goexit": func(context.Context) error { runtime.Goexit(); return nil },
		} {
			for range 9 { // three times as many as there are workers
				err := p.Do(t.Context(), fn)
				got := assert.ErrorAs[*protection.PanicError](t, err, name)
				assert.True(t, len(got.Stack) > 0)
				assert.Equal(t, errors.Is(err, boom), name == "panic")
				assert.Equal(t, protection.Classify(err), protection.Failure)
			}
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.NoError(t, p.Do(t.Context(), hang(time.Second))) })
		}
		synctest.Wait()
		assert.Equal(t, p.Stats().Running, 3, "all workers are there")
		wg.Wait()
	})
}

func TestPoolPanicOfAZombieIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		p := newPool(t, protection.PoolOptions{
			Name: "disk", Workers: 1, Timeout: time.Millisecond, Observer: &log,
		})
		err := p.Do(t.Context(), func(context.Context) error { advance(2 * time.Millisecond); panic("boom") })
		assert.ErrorIs(t, err, protection.ErrExecutionTimeout)
		advance(time.Second)
		synctest.Wait()
		events := log.all()
		assert.Equal(t, len(events), 1)
		assert.Equal(t, events[0].Kind, observe.Panicked)
		assert.ErrorAs[*protection.PanicError](t, events[0].Err)
	})
}

func TestPoolRefusesItsOwnTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, other := newPool(t, protection.PoolOptions{Workers: 2, MaxQueue: 2}), newPool(t, protection.PoolOptions{Workers: 1})
		assert.NoError(t, p.Do(t.Context(), func(ctx context.Context) error {
			err := p.Do(ctx, nothing)
			assert.ErrorIs(t, err, protection.ErrNested)
			assert.ErrorIs(t, err, protection.ErrRejected)
			assert.ErrorIs(t, other.Do(ctx, func(ctx context.Context) error { return p.Do(ctx, nothing) }), protection.ErrNested, "through another")
			return other.Do(ctx, nothing)
		}))
		synctest.Wait()
	})
}

func TestPoolZombieAlarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		p := newPool(t, protection.PoolOptions{
			Name: "disk", Workers: 2, Timeout: 50 * time.Millisecond, Observer: &log,
		})
		phases := func() []observe.Phase { synctest.Wait(); return log.phases() }
		_ = p.Do(t.Context(), hang(149*time.Millisecond)) // comes back within the grace
		advance(time.Second)
		assert.Equal(t, len(phases()), 0)
		_ = p.Do(t.Context(), hang(time.Second))
		advance(99 * time.Millisecond)
		assert.Equal(t, len(phases()), 0)
		advance(time.Millisecond)
		assert.Equal(t, phases(), []observe.Phase{observe.Raised})
		assert.Equal(t, log.all()[0].Level, observe.Warn)
		advance(time.Second)
		assert.Equal(t, phases(), []observe.Phase{observe.Raised, observe.Cleared})
		for range 2 {
			go func() { _ = p.Do(t.Context(), hang(time.Second)) }()
		}
		advance(2 * time.Second)
		assert.Equal(t, phases(), []observe.Phase{observe.Raised, observe.Cleared, observe.Raised, observe.Cleared}, "one alarm for both")
		assert.Equal(t, log.all()[2].Level, observe.Critical)
	})
}

func TestPoolClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Workers: 1, MaxQueue: 1})
		go func() { assert.NoError(t, p.Do(t.Context(), hang(time.Second))) }()
		synctest.Wait()
		go func() { assert.Equal(t, p.Do(t.Context(), nothing), protection.ErrClosed) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		assert.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Since(start), 100*time.Millisecond)
		assert.Equal(t, p.Do(t.Context(), nothing), protection.ErrClosed)
		for range 2 {
			assert.NoError(t, p.Close(t.Context()))
			assert.Equal(t, time.Since(start), time.Second)
		}
		assert.NoError(t, p.Close(ctx), "nothing to wait for, whatever ctx")
	})
}

func TestPoolCloseEndsIdleWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, protection.PoolOptions{Workers: 3})
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.NoError(t, p.Close(ctx))
		assert.Equal(t, time.Since(start), 0)
	})
}

func TestPoolOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]protection.PoolOptions{
		"Workers": {}, "MaxQueue": {Workers: 1, MaxQueue: -1}, "MaxWait": {Workers: 1, MaxWait: -1}, "Timeout": {Workers: 1, Timeout: -1},
	} {
		_, err := protection.NewPool(o)
		named(t, err, "PoolOptions."+field+" is ")
	}
}

func TestPoolNeverExceedsItsBounds_stress(t *testing.T) {
	t.Parallel()
	p, err := protection.NewPool(protection.PoolOptions{Workers: 4, MaxQueue: 8, MaxWait: 2 * time.Millisecond, Timeout: time.Millisecond})
	assert.NoError(t, err)
	var running, most atomic.Int64
	var ran, came atomic.Int64
	reasons := []error{
		protection.ErrFull, protection.ErrWaitTimeout, context.DeadlineExceeded, context.Canceled, protection.ErrClosed,
	}
	together(32, func(i int) {
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(3*time.Millisecond))))
			err := p.Do(ctx, func(ctx context.Context) error {
				raise(&most, running.Add(1))
				defer running.Add(-1)
				ran.Add(1)
				switch rand.IntN(4) {
				case 0:
					panic("boom")
				case 1:
					runtime.Goexit()
				case 2:
					<-ctx.Done()
				}
				return nil
			})
			came.Add(1)
			_, panicked := errors.AsType[*protection.PanicError](err)
			if err != nil && !panicked && !slices.ContainsFunc(reasons, func(r error) bool { return errors.Is(err, r) }) {
				t.Error(err)
			}
			cancel()
		}
		if i == 0 {
			assert.NoError(t, p.Close(t.Context()))
		}
	})
	assert.NoError(t, p.Close(t.Context()))
	assert.True(t, most.Load() <= 4, most.Load())
	assert.True(t, ran.Load() > 0)
	s := p.Stats()
	assert.Equal(t, []int{s.Running, s.Queued, s.Zombies}, []int{0, 0, 0})
}
