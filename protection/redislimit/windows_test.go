package redislimit_test

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/protection/redislimit"
)

// patient is a Timeout for tests that are not about it.
const patient = 20 * time.Second

// fake is a Redis whose time the test sets.
type fake struct {
	*miniredis.Miniredis
	client *redis.Client
	now    time.Time
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{Miniredis: miniredis.NewMiniRedis(), now: time.Unix(1_800_000_000, 0)}
	assert.NoError(t, f.Start())
	t.Cleanup(f.Close)
	f.client = connect(t, f.Addr())
	f.SetTime(f.now)
	return f
}

func (f *fake) pass(d time.Duration) {
	f.now = f.now.Add(d)
	f.SetTime(f.now)
	f.FastForward(d)
}

func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func limit(t *testing.T, rdb redis.Scripter, o redislimit.Options) *redislimit.Windows {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	w, err := redislimit.New(rdb, o)
	assert.NoError(t, err)
	return w
}

func one(key string, n int, length time.Duration) []redislimit.Window {
	return []redislimit.Window{{Key: key, Limit: n, Length: length}}
}

// admitted counts how many of n calls in a row are admitted.
func admitted(t *testing.T, w *redislimit.Windows, n int) int {
	t.Helper()
	got := 0
	for range n {
		permit, err := w.Acquire(t.Context())
		if err != nil {
			assert.ErrorIs(t, err, protection.ErrLimited)
			continue
		}
		assert.True(t, permit.Done(protection.Success))
		got++
	}
	return got
}

func refusal(t *testing.T, w *redislimit.Windows) *protection.RejectedError {
	t.Helper()
	permit, err := w.Acquire(t.Context())
	assert.ErrorIs(t, err, protection.ErrRejected)
	assert.ErrorIs(t, err, protection.ErrLimited)
	assert.True(t, !permit.Done(protection.Success))
	return assert.ErrorAs[*protection.RejectedError](t, err)
}

func TestFixedWindowAdmitsItsLimitInEachWindow(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := limit(t, f.client, redislimit.Options{Name: "api", Windows: one("fixed", 5, time.Minute)})
	f.pass(10 * time.Second)
	assert.Equal(t, admitted(t, w, 10), 5)
	assert.Equal(t, *refusal(t, w), protection.RejectedError{
		Name: "api", Policy: "redis windows", Reason: protection.ErrLimited, RetryAfter: 50 * time.Second,
	})
	f.pass(50*time.Second - time.Microsecond)
	assert.Equal(t, refusal(t, w).RetryAfter, time.Microsecond)
	f.pass(time.Microsecond)
	assert.Equal(t, admitted(t, w, 10), 5)
	f.pass(time.Hour)
	assert.Equal(t, admitted(t, w, 10), 5)
}

func TestSlidingWindowLetsTheOldOneOutEvenly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := limit(t, f.client, redislimit.Options{Windows: one("sliding", 10, time.Minute), Sliding: true})
	assert.Equal(t, admitted(t, w, 20), 10)
	f.pass(time.Minute)
	assert.Equal(t, admitted(t, w, 20), 0, "the whole window before still weighs")
	assert.Equal(t, refusal(t, w).RetryAfter, 6*time.Second+time.Microsecond)
	for range 10 {
		f.pass(6 * time.Second)
		assert.Equal(t, admitted(t, w, 20), 1)
	}
	f.pass(2 * time.Minute)
	assert.Equal(t, admitted(t, w, 20), 10)
	assert.Equal(t, refusal(t, w).RetryAfter, 66*time.Second+time.Microsecond, "in the next window")
}

func TestWindowsCountInAllOrInNone(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := limit(t, f.client, redislimit.Options{Windows: []redislimit.Window{
		{Key: "{t}second", Limit: 3, Length: time.Second}, {Key: "{t}minute", Limit: 5, Length: time.Minute},
	}})
	assert.Equal(t, admitted(t, w, 10), 3)
	assert.Equal(t, refusal(t, w).RetryAfter, time.Second)
	assert.Equal(t, f.HGet("{t}minute", "c"), "3", "a refusal by the second does not count in the minute")
	f.pass(time.Second)
	assert.Equal(t, admitted(t, w, 10), 2)
	assert.Equal(t, f.HGet("{t}second", "c"), "2", "and the other way round")
	assert.Equal(t, refusal(t, w).RetryAfter, 59*time.Second, "the longest wait")
}

func TestWindowsRefusalLeavesTheStateBitForBit(t *testing.T) {
	t.Parallel()
	for _, sliding := range []bool{false, true} {
		f := newFake(t)
		w := limit(t, f.client, redislimit.Options{Windows: one("k", 4, time.Minute), Sliding: sliding})
		assert.Equal(t, admitted(t, w, 4), 4)
		f.pass(time.Second)
		before, ttl := f.Dump(), f.TTL("k")
		refusal(t, w)
		_, err := w.AcquireN(t.Context(), 3)
		assert.ErrorIs(t, err, protection.ErrLimited)
		assert.Equal(t, f.Dump(), before)
		assert.Equal(t, f.TTL("k"), ttl)
	}
}

func TestWindowsKeysLastForTwoWindowsAndNotForEver_regression(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := limit(t, f.client, redislimit.Options{Windows: one("k", 2, 1500*time.Microsecond), Sliding: true})
	assert.Equal(t, admitted(t, w, 1), 1)
	assert.True(t, f.TTL("k") >= 3*time.Millisecond, f.TTL("k"))
	for _, left := range []int{1, 0} { // by a call that is admitted, and by one that is refused
		assert.NoError(t, f.client.Persist(t.Context(), "k").Err())
		assert.Equal(t, f.TTL("k"), 0)
		assert.Equal(t, admitted(t, w, 1), left)
		assert.True(t, f.TTL("k") >= 3*time.Millisecond, "repaired: ", f.TTL("k"))
	}
	f.pass(time.Minute)
	assert.True(t, !f.Exists("k"))
}

func TestWindowsCostsMoreThanOne(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := limit(t, f.client, redislimit.Options{Windows: one("k", 10, time.Minute)})
	_, err := w.AcquireN(t.Context(), 7)
	assert.NoError(t, err)
	_, err = w.AcquireN(t.Context(), 4)
	assert.ErrorIs(t, err, protection.ErrLimited)
	_, err = w.AcquireN(t.Context(), 3)
	assert.NoError(t, err)
	_, err = w.AcquireN(t.Context(), 11)
	assert.Equal(t, assert.ErrorAs[*protection.RejectedError](t, err).RetryAfter, math.MaxInt64, "never")
	for _, n := range []int{0, -1} {
		_, err = w.AcquireN(t.Context(), n)
		assert.Error(t, err)
		assert.True(t, !errors.Is(err, protection.ErrRejected), err)
	}
}

func TestWindowsSurviveAServerClockThatStepsBack(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := limit(t, f.client, redislimit.Options{Windows: one("k", 5, time.Minute)})
	assert.Equal(t, admitted(t, w, 10), 5)
	f.SetTime(f.now.Add(-time.Second))
	assert.Equal(t, admitted(t, w, 10), 0, "a little: nothing is given twice")
	f.SetTime(f.now.Add(-time.Hour))
	assert.Equal(t, admitted(t, w, 10), 5, "far: nothing is wedged")
}

func TestWindowsReadNonsenseAsNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.HSet("k", "w", "x", "c", "y")
	assert.Equal(t, admitted(t, limit(t, f.client, redislimit.Options{Windows: one("k", 5, time.Minute)}), 10), 5)
}

func TestWindowsInAChain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{MaxConcurrent: 1})
	assert.NoError(t, err)
	chain := protection.Chain(limit(t, f.client, redislimit.Options{Windows: one("k", 2, time.Minute)}), bulkhead)
	for _, want := range []error{nil, nil, protection.ErrLimited} {
		assert.ErrorIs(t, protection.Do(t.Context(), chain, func(context.Context) error { return nil }), want)
		assert.Equal(t, bulkhead.InFlight(), 0)
	}
}

func TestWindowsOfARealServer(t *testing.T) {
	t.Parallel()
	rdb := connect(t, testutil.Redis(t))
	for _, sliding := range []bool{false, true} {
		key := "redislimit:real"
		assert.NoError(t, rdb.Del(t.Context(), key).Err())
		w := limit(t, rdb, redislimit.Options{Windows: one(key, 100, 24*time.Hour), Sliding: sliding})
		var wg sync.WaitGroup
		var n atomic.Int64
		for range 8 {
			wg.Go(func() {
				for range 25 {
					if _, err := w.Acquire(t.Context()); err == nil {
						n.Add(1)
					}
				}
			})
		}
		wg.Wait()
		assert.Equal(t, n.Load(), 100)
		retry := refusal(t, w).RetryAfter
		assert.True(t, retry > 0 && retry <= 48*time.Hour, retry)
		assert.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		refusal(t, w) // and is sent again
		assert.True(t, rdb.PTTL(t.Context(), key).Val() >= 48*time.Hour)
		assert.NoError(t, rdb.Persist(t.Context(), key).Err())
		refusal(t, w)
		assert.True(t, rdb.PTTL(t.Context(), key).Val() >= 48*time.Hour, "repaired")
	}
}

func TestWindowsOfARealCluster(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testutil.RedisCluster(t), ContextTimeoutEnabled: true})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	for _, tenant := range []string{"{a}", "{b}", "{c}", "{d}"} { // on all nodes
		assert.NoError(t, rdb.Del(t.Context(), "redislimit:"+tenant+":hour", "redislimit:"+tenant+":day").Err()) // of an earlier run
		w := limit(t, rdb, redislimit.Options{Windows: []redislimit.Window{
			{Key: "redislimit:" + tenant + ":hour", Limit: 50, Length: time.Hour},
			{Key: "redislimit:" + tenant + ":day", Limit: 3, Length: 24 * time.Hour},
		}, WhenDown: redislimit.Refuse})
		assert.Equal(t, admitted(t, w, 5), 3)
		assert.Equal(t, rdb.HGet(t.Context(), "redislimit:"+tenant+":hour", "c").Val(), "3")
	}
}

// told collects the kinds of events.
type told struct {
	mu    sync.Mutex
	kinds []observe.Kind
}

func (o *told) Observe(e observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds = append(o.kinds, e.Kind)
}

func (o *told) all() []observe.Kind {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]observe.Kind{}, o.kinds...)
}

func TestWindowsWithoutRedisDoAsTheOptionSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when redislimit.WhenDown
		want int
	}{{redislimit.Admit, 20}, {redislimit.Refuse, 0}} {
		f := newFake(t)
		var events told
		w := limit(t, f.client, redislimit.Options{Windows: one("k", 5, time.Minute), WhenDown: c.when, Observer: &events})
		assert.Equal(t, admitted(t, w, 2), 2)
		f.SetError("LOADING Redis is loading the dataset in memory")
		assert.Equal(t, admitted(t, w, 20), c.want)
		assert.Equal(t, events.all(), []observe.Kind{observe.RedisDown}, "once")
		f.SetError("")
		assert.Eventually(t, 10*time.Second, func() bool { // at the next trial
			_, err := w.Acquire(t.Context())
			return len(events.all()) == 2 || err != nil && len(events.all()) == 2
		})
		assert.Equal(t, events.all(), []observe.Kind{observe.RedisDown, observe.RedisUp})
		assert.True(t, admitted(t, w, 20) <= 5)
	}
}

// A server that takes connections and says nothing, and a client that does not look at its ctx.
func TestWindowsWaitForRedisNoLongerThanTheirTimeout(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, silent.Close()) })
	rdb := redis.NewClient(&redis.Options{
		Addr: silent.Addr().String(), MaxRetries: -1, ReadTimeout: 4 * time.Second, DialTimeout: 4 * time.Second,
	})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	start := time.Now()
	w := limit(t, rdb, redislimit.Options{Windows: one("k", 5, time.Minute), Timeout: 30 * time.Millisecond, WhenDown: redislimit.Refuse})
	for range 200 { // six seconds of waiting, if all did
		assert.Equal(t, refusal(t, w).RetryAfter, time.Second)
	}
	assert.True(t, time.Since(start) < 3*time.Second, "a few waits, then it is left alone: ", time.Since(start))

	patientLimit := limit(t, rdb, redislimit.Options{Windows: one("k", 5, time.Minute)})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start = time.Now()
	_, err = patientLimit.Acquire(ctx)
	assert.Equal(t, err, context.DeadlineExceeded, "the caller's own")
	_, err = patientLimit.Acquire(ctx)
	assert.Equal(t, err, context.DeadlineExceeded)
	assert.True(t, time.Since(start) < 3*time.Second, time.Since(start))
}
