package tiers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/tiers"
)

// pipelineHook runs in place of every pipeline of a client.
type pipelineHook func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error

func (pipelineHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (pipelineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h pipelineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h(ctx, cmds, next) }
}

func TestAWriteBetweenPTTLAndGETMakesTheAgeErrToOld(t *testing.T) {
	for name, c := range map[string]struct {
		older, newer tiers.Stored[string]
		hit          bool // else PTTL tells more than the newer value can have left, so its age is unknown
	}{
		"a younger value":             {tiers.Stored[string]{TTL: time.Second, Life: time.Minute, Age: 50 * time.Second}, tiers.Stored[string]{TTL: time.Second, Life: time.Minute, Age: time.Second}, true},
		"an older value":              {tiers.Stored[string]{TTL: time.Second, Life: time.Minute, Age: time.Second}, tiers.Stored[string]{TTL: time.Second, Life: time.Minute, Age: 50 * time.Second}, false},
		"one with a shorter life":     {tiers.Stored[string]{TTL: time.Second, Life: time.Hour}, tiers.Stored[string]{TTL: time.Second, Life: time.Minute, Age: 30 * time.Second}, false},
		"one with a longer life":      {tiers.Stored[string]{TTL: time.Second, Life: time.Minute}, tiers.Stored[string]{TTL: time.Second, Life: time.Hour, Age: time.Second}, true},
		"a not-found, soon forgotten": {tiers.Stored[string]{TTL: time.Second, Life: time.Hour}, tiers.Stored[string]{NotFound: true, TTL: time.Second, Life: time.Second}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			writer := view[string](t, open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{}), "c", nil)
			rdb := redis.NewClient(plainOptions(m.Addr()))
			rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
				if cmds[0].Name() != "pttl" { // the client's own
					return next(ctx, cmds)
				}
				assert.Equal(t, cmds[0].Name()+" "+cmds[1].Name(), "pttl get")
				if err := next(ctx, cmds[:1]); err != nil {
					return err
				}
				assert.NoError(t, writer.Set(context.WithoutCancel(ctx), "k", c.newer))
				return next(ctx, cmds[1:])
			}))
			v := view[string](t, open(t, rdb, tiers.RedisOptions{Timeout: patient}), "c", nil)
			assert.NoError(t, writer.Set(t.Context(), "k", c.older))
			s, err := v.Get(t.Context(), "k")
			if !c.hit {
				assert.ErrorIs(t, err, tiers.ErrMiss)
				return
			}
			assert.NoError(t, err)
			assert.Equal(t, s.NotFound, c.newer.NotFound)
			assert.True(t, s.Age >= c.newer.Age, "age ", s.Age, " of a value that was ", c.newer.Age, " old")
		})
	}
}

// As by an operator's EXPIRE, by a step back of the wall clock of Redis, or by that of the node which a failover chose.
func TestAValueWithMoreTimeToLiveThanItWasGivenIsAMiss(t *testing.T) {
	m := miniredis.RunT(t)
	r := open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{Timeout: patient})
	v := view[string](t, r, "c", nil)
	stored := tiers.Stored[string]{TTL: time.Minute, Life: time.Hour, Age: 10 * time.Minute}
	for ttl, hit := range map[time.Duration]bool{
		time.Millisecond: true, 30 * time.Minute: true, 50 * time.Minute: true, 50*time.Minute + 100*time.Millisecond: true,
		50*time.Minute + 101*time.Millisecond: false, time.Hour: false, 1000 * time.Hour: false,
	} {
		assert.NoError(t, v.Set(t.Context(), "k", stored))
		m.SetTTL("test:c:{k}", ttl)
		before := r.Stats().Unreadable.Extended
		s, err := v.Get(t.Context(), "k")
		assert.Equal(t, err == nil, hit, ttl, ": ", err)
		if hit {
			assert.Equal(t, s.Age, max(time.Hour-ttl, stored.Age), ttl)
			assert.Equal(t, r.Stats().Unreadable.Extended, before)
		} else {
			assert.ErrorIs(t, err, tiers.ErrMiss)
			assert.Equal(t, r.Stats().Unreadable.Extended, before+1)
		}
	}
}

// The wait for a connection, a dial, a hook or a retry of the client's: what is written late is not younger for it.
func TestTheAgeCountsUntilTheValueIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := bubbleClient(t)
		rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			if cmds[0].Name() == "set" {
				sleep(2 * time.Second)
			}
			return next(ctx, cmds)
		}))
		r := open(t, rdb, tiers.RedisOptions{Timeout: patient})
		v := view[string](t, r, "c", nil)
		assert.NoError(t, v.Set(t.Context(), "k", minute("v")))
		s, err := v.Get(t.Context(), "k")
		assert.NoError(t, err)
		assert.Equal(t, s.Age, 2*time.Second)

		assert.NoError(t, v.Set(t.Context(), "k", tiers.Stored[string]{TTL: time.Second, Life: time.Second}))
		sleep(time.Millisecond)
		assert.ErrorIs(t, second(v.Get(t.Context(), "k")), tiers.ErrMiss, "its life ended on its way")
	})
}

// movedError is a redirection as the client sees it.
type movedError struct{}

func (movedError) Error() string { return "MOVED 1 127.0.0.1:1" }
func (movedError) RedisError()   {}

func TestAReadWhosePTTLWasRedirectedBehindItsGETIsAMiss(t *testing.T) {
	for name, c := range map[string]struct {
		redirected []int // commands that are sent again, behind the others
		hit        bool
	}{
		"none":      {nil, true},
		"PTTL only": {[]int{0}, false},
		"GET only":  {[]int{1}, true},
		"both":      {[]int{0, 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redis.NewClient(plainOptions(miniredis.RunT(t).Addr()))
			rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
				if cmds[0].Name() != "pttl" {
					return next(ctx, cmds)
				}
				err := next(ctx, cmds)
				for _, i := range c.redirected {
					cmds[i].SetErr(movedError{})
				}
				for _, i := range c.redirected {
					err = next(ctx, cmds[i:i+1])
				}
				return err
			}))
			r := open(t, rdb, tiers.RedisOptions{Timeout: patient})
			v := view[string](t, r, "c", nil)
			assert.NoError(t, v.Set(t.Context(), "k", minute("v")))
			err := second(v.Get(t.Context(), "k"))
			assert.Equal(t, err == nil, c.hit, err)
			assert.Equal(t, r.Stats().Unreadable.Moved == 0, c.hit)
		})
	}
}

func TestAHookThatRefusesOrPanicsIsAnErrorNotAnAnswer(t *testing.T) {
	m := miniredis.RunT(t)
	refused := errors.New("refused")
	var act atomic.Int64
	rdb := redis.NewClient(plainOptions(m.Addr()))
	rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		switch act.Load() {
		case 1:
			return refused
		case 2:
			panic("hook")
		case 3:
			runtime.Goexit()
		case 4:
			return nil
		}
		return next(ctx, cmds)
	}))
	r := open(t, rdb, tiers.RedisOptions{Timeout: patient, Breaker: protection.BreakerOptions{MinCalls: 1000}})
	v := view[string](t, r, "c", nil)
	ctx, cancel := context.WithCancel(t.Context()) // a ctx that can end, so that calls run on goroutines of the tier's
	defer cancel()
	for i := range int64(4) {
		act.Store(i + 1)
		err := v.Set(ctx, "k", minute("v"))
		assert.Error(t, err, i+1)
		assert.True(t, i != 0 || errors.Is(err, refused), err)
		if i < 3 {
			assert.True(t, !errors.Is(second(v.Get(ctx, "k")), tiers.ErrMiss), "nothing was looked up")
		}
	}
	act.Store(0)
	assert.NoError(t, v.Set(ctx, "k", minute("v")))
	assert.NoError(t, second(v.Get(ctx, "k")))
	assert.Eventually(t, patient, func() bool { return r.Stats().InFlight == 0 })
}

func TestADeletionThatWasNotSentIsAnErrorForEveryKey(t *testing.T) {
	refused := errors.New("refused")
	for name, act := range map[string]func() error{
		"refused":         func() error { return refused },
		"refused as nil":  func() error { return redis.Nil },
		"a panic":         func() error { panic("hook") },
		"runtime.Goexit":  func() error { runtime.Goexit(); return nil },
		"a closed client": func() error { return redis.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redis.NewClient(plainOptions(miniredis.RunT(t).Addr()))
			rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
				if cmds[0].Name() == "unlink" {
					return act()
				}
				return next(ctx, cmds)
			}))
			r := open(t, rdb, tiers.RedisOptions{Timeout: patient})
			v := view[string](t, r, "c", nil)
			ctx, cancel := context.WithCancel(t.Context()) // a ctx that can end, so that calls run on goroutines of the tier's
			defer cancel()
			assert.NoError(t, v.Set(ctx, "k", minute("old")))
			for _, keys := range [][]string{{"k"}, {"k", "l"}} {
				err := v.Delete(ctx, keys...)
				for i := range keys {
					assert.Error(t, err, keys)
					assert.True(t, strings.Contains(err.Error(), fmt.Sprintf("key %d: ", i)), err)
				}
			}
			assert.Equal(t, r.Stats().Deletes, 0)
			assert.NoError(t, second(v.Get(ctx, "k")))
		})
	}
}

// A pipeline that ends with a bare redis.Nil, which no command has got, has told nothing about any key.
func TestAPipelineThatEndsWithNilHasStoredAndFoundNothing(t *testing.T) {
	rdb := redis.NewClient(plainOptions(miniredis.RunT(t).Addr()))
	rdb.AddHook(pipelineHook(func(context.Context, []redis.Cmder, redis.ProcessPipelineHook) error { return redis.Nil }))
	r := open(t, rdb, tiers.RedisOptions{Timeout: patient})
	v := view[string](t, r, "c", nil)
	assert.Error(t, v.Set(t.Context(), "k", minute("v")))
	err := second(v.Get(t.Context(), "k"))
	assert.True(t, err != nil && !errors.Is(err, tiers.ErrMiss), err)
	assert.Equal(t, r.Stats().Sets, 0)
}

func TestErrorsNameNoKeyAndNoValue(t *testing.T) {
	m := miniredis.RunT(t)
	told := &events{}
	r := open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{Observer: told})
	v := view[string](t, r, "c", nil)
	m.SetError("ERR unknown command, with args beginning with: secret")
	for i := range 5 {
		for _, err := range []error{
			second(v.Get(t.Context(), "secret")), v.Set(t.Context(), "secret", minute("secret")), v.Delete(t.Context(), "secret", fmt.Sprint("secret", i)),
		} {
			assert.Error(t, err)
			assert.True(t, !strings.Contains(err.Error(), "secret"), err)
		}
	}
	told.become(t, "redis.down warn", "redis.down critical")
	assert.NoError(t, r.Close(t.Context())) // after which nothing is told
	for _, e := range told.all {
		assert.True(t, !strings.Contains(fmt.Sprint(e), "secret"), e)
	}
}

// An observer of a test's may well call t.FailNow.
func TestAnObserverThatExitsHoldsUpNobodyAndLeaksNothing(t *testing.T) {
	for name, fault := range map[string]pipelineHook{
		"Redis refuses": func(context.Context, []redis.Cmder, redis.ProcessPipelineHook) error {
			return errors.New("connection refused")
		},
		"Redis hangs": func(ctx context.Context, _ []redis.Cmder, _ redis.ProcessPipelineHook) error {
			<-ctx.Done()
			sleep(time.Second) // as a client whose own timeouts are long
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := bubbleClient(t)
				rdb.AddHook(fault)
				told := &events{}
				r := open(t, rdb, tiers.RedisOptions{Observer: observe.Func(func(e observe.Event) {
					told.Observe(e)
					runtime.Goexit()
				})})
				v := view[string](t, r, "c", nil)
				ctx, cancel := context.WithCancel(t.Context()) // a ctx that can end, so that calls run on goroutines of the tier's
				defer cancel()
				for range 6 { // past the warning, and past the opening of the breaker
					began := time.Now()
					assert.Error(t, second(v.Get(ctx, "k")))
					assert.True(t, time.Since(began) <= 250*time.Millisecond, "took ", time.Since(began))
				}
				synctest.Wait() // the breaker is told after the caller
				assert.Equal(t, told.kinds(), []string{"redis.down warn", "redis.down critical"})
				assert.ErrorIs(t, r.Ready(), protection.ErrOpen)
				sleep(2 * time.Second)
				assert.Equal(t, r.Stats().InFlight, 0)
				assert.NoError(t, r.Close(ctx))
			})
		})
	}
}

func TestASlowObserverHoldsUpCloseButNoCall(t *testing.T) {
	release := make(chan struct{})
	var ended atomic.Bool
	o := plainOptions(blackHole(t))
	o.ContextTimeoutEnabled, o.ReadTimeout = false, 200*time.Millisecond // the tier's limit comes before the client's
	r := open(t, redis.NewClient(o), tiers.RedisOptions{
		Timeout: 50 * time.Millisecond,
		Observer: observe.Func(func(e observe.Event) {
			if e.Kind == observe.RedisDown {
				<-release
				ended.Store(true)
			}
		}),
	})
	v := view[string](t, r, "c", nil)
	ctx, cancel := context.WithCancel(t.Context()) // a ctx that can end, so that calls run on goroutines of the tier's
	defer cancel()
	for range 5 {
		began := time.Now()
		assert.ErrorIs(t, second(v.Get(ctx, "k")), tiers.ErrTimeout)
		assert.True(t, time.Since(began) < 50*time.Millisecond+slack, "took ", time.Since(began))
	}
	time.AfterFunc(500*time.Millisecond, func() { close(release) }) // when the client has given up, too
	assert.NoError(t, r.Close(ctx))
	assert.True(t, ended.Load(), "Close returned before the observer")
}

func TestWhatCountsAgainstRedis(t *testing.T) {
	for text, opens := range map[string]bool{
		"READONLY You can't write against a read only replica.":  true,
		"CLUSTERDOWN The cluster is down":                        true,
		"LOADING Redis is loading the dataset in memory":         true,
		"MOVED 1 127.0.0.1:1":                                    false,
		"ASK 1 127.0.0.1:1":                                      false,
		"CROSSSLOT Keys in request don't hash to the same slot":  false,
		"TRYAGAIN Multiple keys request during rehashing":        false,
		"NOSCRIPT No matching script":                            false,
		"OOM command not allowed when used memory > 'maxmemory'": false,
	} {
		t.Run(strings.Fields(text)[0], func(t *testing.T) {
			m := miniredis.RunT(t)
			told := &events{}
			r := open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{
				Observer: told, Timeout: patient, Breaker: protection.BreakerOptions{OpenFor: time.Minute},
			})
			v := view[string](t, r, "c", nil)
			m.SetError(text)
			for range 10 {
				assert.Error(t, v.Set(t.Context(), "k", minute("v")))
			}
			assert.Eventually(t, patient, func() bool { return r.Stats().InFlight == 0 }) // told after the callers, before the calls end
			assert.Equal(t, errors.Is(r.Ready(), protection.ErrOpen), opens)
			assert.Equal(t, len(told.kinds()) > 0, opens)
			m.SetError("")
		})
	}
}

func TestAWaitForAConnectionIsLoadNotOutage(t *testing.T) {
	o := plainOptions(miniredis.RunT(t).Addr())
	o.PoolSize, o.PipelinePoolSize, o.PoolTimeout = 1, -1, time.Millisecond
	rdb := redis.NewClient(o)
	told := &events{}
	r := open(t, rdb, tiers.RedisOptions{Observer: told, Timeout: patient})
	v := view[string](t, r, "c", nil)
	conn := rdb.Conn() // takes the only connection
	assert.NoError(t, conn.Ping(t.Context()).Err())
	for range 20 {
		assert.ErrorIs(t, second(v.Get(t.Context(), "k")), redis.ErrPoolTimeout)
	}
	assert.NoError(t, conn.Close())
	assert.NoError(t, r.Ready())
	assert.Equal(t, len(told.kinds()), 0)
	assert.ErrorIs(t, second(v.Get(t.Context(), "k")), tiers.ErrMiss)
}

func TestACallThatOutlivesItsLimitHoldsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rdb := bubbleClient(t)
		rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			<-release
			return next(context.WithoutCancel(ctx), cmds)
		}))
		r := open(t, rdb, tiers.RedisOptions{MaxConcurrent: 3, Breaker: protection.BreakerOptions{MinCalls: 1000}})
		v := view[string](t, r, "c", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				start := time.Now()
				assertIs(t, second(v.Get(ctx, "k")), tiers.ErrTimeout)
				if took := time.Since(start); took != 250*time.Millisecond {
					t.Errorf("took %v", took)
				}
			})
		}
		all.Wait()
		assert.Equal(t, r.Stats().InFlight, 3)
		start := time.Now()
		assert.ErrorIs(t, second(v.Get(ctx, "k")), protection.ErrWaitTimeout)
		assert.Equal(t, time.Since(start), 250*time.Millisecond)
		short, stop := context.WithTimeout(ctx, time.Millisecond)
		defer stop()
		assert.ErrorIs(t, r.Close(short), context.DeadlineExceeded)
		assert.ErrorIs(t, second(v.Get(ctx, "k")), tiers.ErrClosed)
		close(release)
		assert.NoError(t, r.Close(ctx))
		assert.Equal(t, r.Stats().InFlight, 0)
	})
}

func TestAHungBatchDoesNotHoldUpTheCallsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var hang atomic.Bool
		rdb := bubbleClient(t)
		rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			if hang.Load() {
				<-release
			}
			return next(context.WithoutCancel(ctx), cmds)
		}))
		r := open(t, rdb, tiers.RedisOptions{Breaker: protection.BreakerOptions{MinCalls: 1000}})
		v := view[string](t, r, "c", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hang.Store(true)
		var all sync.WaitGroup
		for range 40 { // eight go on their own, one or more batches fill the lane
			all.Go(func() { assertIs(t, second(v.Get(ctx, "k")), tiers.ErrTimeout) })
		}
		sleep(100 * time.Millisecond)
		hang.Store(false)
		for range 20 {
			all.Go(func() {
				start := time.Now()
				assertIs(t, second(v.Get(ctx, "k")), tiers.ErrMiss)
				if took := time.Since(start); took > 250*time.Millisecond {
					t.Errorf("took %v", took)
				}
			})
		}
		all.Wait()
		assert.True(t, r.Stats().InFlight > 0, "the hung calls still count")
		close(release)
	})
}

func TestReadsThatNobodyWaitsForAreNotSentWritesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var gets, sets atomic.Int64
		rdb := bubbleClient(t)
		rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			for _, cmd := range cmds {
				switch cmd.Name() {
				case "get":
					gets.Add(1)
				case "set":
					sets.Add(1)
				}
			}
			<-release
			return next(ctx, cmds)
		}))
		r := open(t, rdb, tiers.RedisOptions{Timeout: patient})
		v := view[string](t, r, "c", nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 9 { // the direct calls and the lane's first batch, all under way
			all.Go(func() { assertIs(t, second(v.Get(ctx, "k")), context.Canceled) })
			synctest.Wait()
		}
		for i := range 10 {
			all.Go(func() { assertIs(t, second(v.Get(ctx, "k")), context.Canceled) })
			all.Go(func() { assertIs(t, v.Set(ctx, fmt.Sprint("w", i), minute("v")), context.Canceled) })
		}
		synctest.Wait()
		assert.Equal(t, gets.Load(), 9)
		cancel()
		all.Wait()
		close(release)
		synctest.Wait()
		assert.Equal(t, gets.Load(), 9)
		assert.Equal(t, sets.Load(), 10)
		for i := range 10 {
			assert.NoError(t, second(v.Get(t.Context(), fmt.Sprint("w", i))))
		}
	})
}

func TestAValueWhoseLifeEndsOnItsWayIsNoSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rdb := bubbleClient(t)
		rdb.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			<-release
			return next(ctx, cmds)
		}))
		r := open(t, rdb, tiers.RedisOptions{Timeout: patient})
		v := view[string](t, r, "c", nil)
		var all sync.WaitGroup
		for i := range 10 { // the last one waits in the lane for the one before
			all.Go(func() {
				life := time.Minute
				if i == 9 {
					life = time.Millisecond
				}
				assert.NoError(t, v.Set(t.Context(), fmt.Sprint("k", i), tiers.Stored[string]{TTL: life, Life: life}))
			})
			synctest.Wait()
		}
		sleep(time.Second)
		close(release)
		all.Wait()
		assert.Equal(t, r.Stats().Sets, 9)
		assert.ErrorIs(t, second(v.Get(t.Context(), "k9")), tiers.ErrMiss)
	})
}

func TestManyCallsShareFewPipelines(t *testing.T) {
	m := miniredis.RunT(t)
	h := &slowHook{delay: time.Millisecond}
	rdb := redis.NewClient(plainOptions(m.Addr()))
	rdb.AddHook(h)
	v := view[int](t, open(t, rdb, tiers.RedisOptions{Timeout: patient}), "c", nil)
	const callers, rounds = 64, 50
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			key := fmt.Sprint("k", i)
			for n := range rounds {
				if err := v.Set(t.Context(), key, minute(n)); err != nil {
					t.Error(err)
				}
				if s, err := v.Get(t.Context(), key); err != nil || s.Value != n {
					t.Errorf("read %d after writing %d: %v", s.Value, n, err)
				}
			}
		})
	}
	all.Wait()
	assert.True(t, h.calls.Load() < callers*rounds, h.calls.Load(), " pipelines for ", 2*callers*rounds, " calls")
	assert.True(t, m.TotalConnectionCount() <= 20, m.TotalConnectionCount(), " connections")
}

func TestADeadNodeOfAClusterTakesOnlyItsOwnKeysAlong(t *testing.T) {
	addrs := testutil.RedisCluster(t)
	rdb := redis.NewClusterClient(clusterOptions(addrs))
	var deadAddr atomic.Value
	rdb.OnNewNode(func(node *redis.Client) {
		addr := node.Options().Addr
		node.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
			if deadAddr.Load() == addr && cmds[0].Name() != "client" { // not what the client itself says on a new connection
				<-ctx.Done()
				return ctx.Err()
			}
			return next(ctx, cmds)
		}))
	})
	r := open(t, rdb, tiers.RedisOptions{Breaker: protection.BreakerOptions{OpenFor: time.Minute}})
	v := view[string](t, r, freshName(), nil)
	keys := map[string]string{} // node → key
	for i := 0; len(keys) < 3; i++ {
		key := fmt.Sprint("k", i)
		assert.NoError(t, v.Set(t.Context(), key, minute("v")))
		master, err := rdb.MasterForKey(t.Context(), "x{"+key+"}")
		assert.NoError(t, err)
		keys[master.Options().Addr] = key
	}
	deadAddr.Store(addrs[0])
	assert.Eventually(t, patient, func() bool {
		return errors.Is(second(v.Get(t.Context(), keys[addrs[0]])), protection.ErrOpen)
	})
	for _, addr := range addrs[1:] {
		assert.NoError(t, second(v.Get(t.Context(), keys[addr])))
	}
	assert.NoError(t, r.Ready(), "two nodes serve")
	err := v.Delete(t.Context(), keys[addrs[1]], keys[addrs[0]], keys[addrs[2]])
	assert.ErrorIs(t, err, protection.ErrOpen)
	assert.True(t, strings.Contains(err.Error(), "key 1:") && !strings.Contains(err.Error(), "key 0:") && !strings.Contains(err.Error(), "key 2:"), err)
	for _, addr := range addrs[1:] {
		assert.ErrorIs(t, second(v.Get(t.Context(), keys[addr])), tiers.ErrMiss)
	}
}

func TestCloseOfAnIdleTierSucceedsWhateverItsContext(t *testing.T) {
	rdb := redis.NewClient(plainOptions(miniredis.RunT(t).Addr()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		assert.NoError(t, open(t, rdb, tiers.RedisOptions{}).Close(ended))
	}
}

func TestNewRedisNamesWhatCannotBe(t *testing.T) {
	ok := redis.NewClient(plainOptions("localhost:6379"))
	defer ok.Close()
	for want, o := range map[string]tiers.RedisOptions{
		"Prefix":        {Prefix: "a:b"},
		"MaxConcurrent": {Prefix: "p", MaxConcurrent: -1},
		"MaxValueSize":  {Prefix: "p", MaxValueSize: -1},
		"Timeout":       {Prefix: "p", Timeout: time.Microsecond},
		"FailureRatio":  {Prefix: "p", Breaker: protection.BreakerOptions{FailureRatio: 2}},

		"tiers: RedisOptions.Breaker": {Prefix: "p", Breaker: protection.BreakerOptions{OpenFor: -1}},
	} {
		_, err := tiers.NewRedis(ok, o)
		assert.Error(t, err, want)
		assert.True(t, strings.Contains(err.Error(), want), err)
	}
	for want, rdb := range map[string]redis.UniversalClient{
		"nil":            nil,
		"the client is":  (*redis.Client)(nil),
		`"localhost"`:    redis.NewClient(&redis.Options{Addr: "localhost"}),
		"http://h:80":    redis.NewClient(&redis.Options{Addr: "http://h:80"}),
		`"h:99999"`:      redis.NewClient(&redis.Options{Addr: "h:99999"}),
		`"second"`:       redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"first:1", "second"}}),
		"ReadOnly":       redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"h:1"}, ReadOnly: true}),
		"RouteByLatency": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"h:1"}, RouteByLatency: true}),
		"RouteRandomly":  redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"h:1"}, RouteRandomly: true}),
		"Ring":           redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "h:1"}}),
	} {
		_, err := tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: "p"})
		assert.Error(t, err, want)
		assert.True(t, strings.Contains(err.Error(), want), err)
		if c, ok := rdb.(*redis.Client); rdb != nil && (!ok || c != nil) {
			_ = rdb.Close()
		}
	}
}

func TestRiskySettingsOfTheClientAreToldOnce(t *testing.T) {
	told := &events{}
	bare := redis.NewClient(&redis.Options{Addr: "localhost:6379", WriteTimeout: -1})
	open(t, bare, tiers.RedisOptions{Observer: told})
	assert.Equal(t, told.kinds(), []string{"redis.misuse warn"})
	for _, want := range []string{"MaxRetries is 3", "ContextTimeoutEnabled", "ReadTimeout is 5s", "WriteTimeout is off", "DialTimeout", "MaintNotifications"} {
		assert.True(t, strings.Contains(told.all[0].Message, want), want, " in ", told.all[0].Message)
	}
	open(t, redis.NewClient(plainOptions("localhost:6379")), tiers.RedisOptions{Observer: told})
	open(t, redis.NewClusterClient(clusterOptions([]string{"localhost:1"})), tiers.RedisOptions{Observer: told})
	assert.Equal(t, told.count(string(observe.RedisMisuse)+" warn"), 1)
}
