package tiers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
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

// open returns a tier over rdb and closes both at the end of the test.
func open(t *testing.T, rdb redis.UniversalClient, o tiers.RedisOptions) *tiers.Redis {
	t.Helper()
	if o.Prefix == "" {
		o.Prefix = "test"
	}
	r, err := tiers.NewRedis(rdb, o)
	assert.NoError(t, err)
	t.Cleanup(func() {
		_ = rdb.Close()
		assert.NoError(t, r.Close(context.WithoutCancel(t.Context())))
	})
	return r
}

func view[V any](t *testing.T, r *tiers.Redis, name string, codec tiers.Codec[V]) *tiers.RedisView[string, V] {
	t.Helper()
	v, err := tiers.NewRedisView(r, tiers.RedisViewOptions[string, V]{Name: name, Codec: codec})
	assert.NoError(t, err)
	return v
}

func minute[V any](v V) tiers.Stored[V] {
	return tiers.Stored[V]{Value: v, TTL: time.Minute, Life: time.Minute}
}

// events collects what an observer is told.
type events struct {
	mu  sync.Mutex
	all []observe.Event
}

func (e *events) Observe(ev observe.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) kinds() (kinds []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		kinds = append(kinds, string(ev.Kind)+" "+ev.Level.String())
	}
	return kinds
}

// become waits until the events are of these kinds: a breaker tells them on a goroutine of its own.
func (e *events) become(t *testing.T, want ...string) {
	t.Helper()
	assert.Eventually(t, patient, func() bool { return len(e.kinds()) >= len(want) }, "events: ", want)
	assert.Equal(t, e.kinds(), want)
}

func (e *events) count(k string) (n int) {
	for _, got := range e.kinds() {
		if got == k {
			n++
		}
	}
	return n
}

func TestThreeKeysInThreeSlotsOneMissing(t *testing.T) {
	rdb := redis.NewClusterClient(clusterOptions(testutil.RedisCluster(t)))
	v := view[string](t, open(t, rdb, tiers.RedisOptions{Timeout: patient}), freshName(), nil)
	ctx := t.Context()
	for range 2 { // before and after the tier has learnt the cluster's slots
		assert.NoError(t, v.Set(ctx, "a", minute("A")))
		assert.NoError(t, v.Set(ctx, "b", minute("B")))
		for key, want := range map[string]error{"a": nil, "b": nil, "c": tiers.ErrMiss} {
			_, err := v.Get(ctx, key)
			assert.True(t, errors.Is(err, want), key, ": ", err)
		}
		assert.NoError(t, v.Delete(ctx, "a", "b", "c"))
		for _, key := range []string{"a", "b", "c"} {
			_, err := v.Get(ctx, key)
			assert.ErrorIs(t, err, tiers.ErrMiss)
		}
	}
}

// blackHole returns the address of a server that accepts connections and never answers.
func blackHole(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

func TestBlackHoledNodesHoldNobodyPastTheCtx(t *testing.T) {
	careless := &redis.Options{Addr: blackHole(t), ReadTimeout: 3 * time.Second} // retries, and no ContextTimeoutEnabled
	careful := plainOptions(blackHole(t))
	for name, rdb := range map[string]redis.UniversalClient{
		"a careless client": redis.NewClient(careless),
		"a careful client":  redis.NewClient(careful),
		"a cluster":         redis.NewClusterClient(clusterOptions([]string{blackHole(t), blackHole(t), blackHole(t)})),
	} {
		t.Run(name, func(t *testing.T) {
			v := view[string](t, open(t, rdb, tiers.RedisOptions{Timeout: 2 * time.Second}), "dark", nil)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			var all sync.WaitGroup
			for i := range 40 { // enough to fill the direct calls and a lane
				all.Go(func() {
					_, err := v.Get(ctx, fmt.Sprint("k", i))
					assertIs(t, err, context.DeadlineExceeded)
					assertIs(t, v.Set(ctx, "k", minute("v")), context.DeadlineExceeded)
					assertIs(t, v.Delete(ctx, "k", "l"), context.DeadlineExceeded)
				})
			}
			all.Wait()
			if took := time.Since(start); took > 150*time.Millisecond+slack {
				t.Errorf("back after %v", took)
			}
		})
	}
}

// slack is what a loaded machine under the race detector may add.
const slack = 300 * time.Millisecond

func assertIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error is %v, want %v", err, target)
	}
}

func TestTheTiersOwnLimitHoldsWithoutADeadline(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: blackHole(t), ReadTimeout: 2 * time.Second, MaxRetries: -1})
	r := open(t, rdb, tiers.RedisOptions{Timeout: 50 * time.Millisecond})
	v := view[string](t, r, "dark", nil)
	start := time.Now()
	_, err := v.Get(t.Context(), "k")
	assert.ErrorIs(t, err, tiers.ErrTimeout)
	assert.True(t, !errors.Is(err, context.DeadlineExceeded), "it must not look like the caller's own deadline")
	assert.True(t, time.Since(start) < 50*time.Millisecond+slack, "took ", time.Since(start))
	assert.Equal(t, r.Stats().Timeouts, 1)
}

// slowHook delays every pipeline of a client.
type slowHook struct {
	delay time.Duration
	calls atomic.Int64
}

func (*slowHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*slowHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *slowHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.calls.Add(1)
		sleep(h.delay)
		return next(ctx, cmds)
	}
}

func TestShortCtxAgainstSlowRedisCostsNoConnections(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(plainOptions(m.Addr()))
	rdb.AddHook(&slowHook{delay: 10 * time.Millisecond})
	told := &events{}
	r := open(t, rdb, tiers.RedisOptions{Timeout: patient, Observer: told})
	v := view[string](t, r, "slow", nil)

	var all sync.WaitGroup
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var dialled int
	for i := range 1000 {
		<-tick.C
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			if _, err := v.Get(ctx, fmt.Sprint("k", i)); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, tiers.ErrMiss) {
				t.Errorf("Get: %v", err)
			}
		})
		if i == 300 {
			dialled = m.TotalConnectionCount()
		}
	}
	all.Wait()
	assert.True(t, m.TotalConnectionCount() <= dialled+10, "connections grew from ", dialled, " to ", m.TotalConnectionCount())
	assert.NoError(t, r.Ready())
	assert.True(t, r.Stats().Cancelled > 500, "callers gave up: ", r.Stats().Cancelled)
	assert.Equal(t, len(told.kinds()), 0)
}

func TestRedisStoppedForLongIsUsedAgainWithinFiveSeconds(t *testing.T) {
	m := miniredis.NewMiniRedis()
	assert.NoError(t, m.Start())
	defer m.Close()
	told := &events{}
	r := open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{Observer: told})
	v := view[string](t, r, "c", nil)
	assert.NoError(t, v.Set(t.Context(), "k", minute("v")))

	m.Close()
	var worst time.Duration
	for down := time.Now(); time.Since(down) < 2*time.Second; sleep(5 * time.Millisecond) {
		start := time.Now()
		_, err := v.Get(t.Context(), "k")
		assert.Error(t, err)
		worst = max(worst, time.Since(start))
	}
	assert.True(t, worst < 250*time.Millisecond+slack, "a call took ", worst)
	assert.Eventually(t, patient, func() bool { return errors.Is(second(v.Get(t.Context(), "k")), protection.ErrOpen) }, "the breaker opens")
	told.become(t, "redis.down warn", "redis.down critical")

	assert.NoError(t, m.Restart())
	assert.Eventually(t, 5*time.Second, func() bool { return second(v.Get(t.Context(), "k")) == nil })
	told.become(t, "redis.down warn", "redis.down critical", "redis.up info")
}

func second[T any](_ T, err error) error { return err }

func TestUnreachableRedisIsToldAtLowTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		m := miniredis.NewMiniRedis()
		t.Cleanup(m.Close)
		o := plainOptions("")
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			if !up.Load() {
				return nil, errors.New("connection refused")
			}
			c, err := m.Dial()
			return newPumped(c), err
		}
		o.DialerRetries = 1
		told := &events{}
		r := open(t, redis.NewClient(o), tiers.RedisOptions{Observer: told})
		v := view[string](t, r, "c", nil)
		for i := range 6 { // one call a minute: never enough for the breaker
			_, err := v.Get(t.Context(), "k")
			assert.Error(t, err)
			if i == 1 {
				assert.Equal(t, len(told.kinds()), 0)
			}
			sleep(time.Minute)
		}
		assert.Equal(t, told.kinds(), []string{"redis.down warn"})
		up.Store(true)
		for range 3 {
			assert.ErrorIs(t, second(v.Get(t.Context(), "k")), tiers.ErrMiss)
		}
		synctest.Wait() // the observer is told after the caller
		assert.Equal(t, told.kinds(), []string{"redis.down warn", "redis.up info"})
	})
}

func TestTwoTypesOnOneNameMissEachOther(t *testing.T) {
	type user struct{ ID int }
	type order struct{ ID int }
	m := miniredis.RunT(t)
	r := open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{})
	users, orders := view[user](t, r, "one", nil), view[order](t, r, "one", nil)
	assert.NoError(t, users.Set(t.Context(), "k", minute(user{7})))
	assert.ErrorIs(t, second(orders.Get(t.Context(), "k")), tiers.ErrMiss)
	assert.ErrorIs(t, second(view[string](t, r, "one", nil).Get(t.Context(), "k")), tiers.ErrMiss)
	assert.NoError(t, second(users.Get(t.Context(), "k")))
	assert.Equal(t, r.Stats().Unreadable.Type, 2)
	assert.Equal(t, r.Stats().Hits, 1)
}

func TestOldAndNewBinarySideBySideMiss(t *testing.T) {
	m := miniredis.RunT(t)
	r := open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{})
	ctx := t.Context()
	before := func() *tiers.RedisView[string, user1] { return view[user1](t, r, "u", nil) }()
	after := view[user2](t, r, "u", nil)
	assert.NoError(t, before.Set(ctx, "k", minute(user1{ID: 1})))
	assert.ErrorIs(t, second(after.Get(ctx, "k")), tiers.ErrMiss)
	assert.NoError(t, after.Set(ctx, "k", minute(user2{ID: 1, Name: "n"})))
	assert.ErrorIs(t, second(before.Get(ctx, "k")), tiers.ErrMiss)
	assert.Equal(t, r.Stats().Unreadable.Type, 2)

	strings1, strings2 := view[string](t, r, "s", upper{16}), view[string](t, r, "s", upper{17})
	assert.NoError(t, strings1.Set(ctx, "k", minute("v")))
	assert.ErrorIs(t, second(strings2.Get(ctx, "k")), tiers.ErrMiss)
	assert.Equal(t, r.Stats().Unreadable.Codec, 1)

	raw, err := m.Get("test:s:{k}")
	assert.NoError(t, err)
	spoil := func(change func(b []byte) []byte) {
		m.Set("test:s:{k}", string(change([]byte(raw))))
		m.SetTTL("test:s:{k}", time.Minute)
		assert.ErrorIs(t, second(strings1.Get(ctx, "k")), tiers.ErrMiss)
	}
	spoil(func(b []byte) []byte { b[2] = 2; return b })
	assert.Equal(t, r.Stats().Unreadable.Version, 1)
	spoil(func(b []byte) []byte { b[len(b)-1]++; return b })
	assert.Equal(t, r.Stats().Unreadable.Checksum, 1)
	spoil(func([]byte) []byte { return []byte(`"*"`) })
	assert.Equal(t, r.Stats().Unreadable.Malformed, 1)
	m.Set("test:s:{k}", raw) // without a TTL
	assert.ErrorIs(t, second(strings1.Get(ctx, "k")), tiers.ErrMiss)
	assert.Equal(t, r.Stats().Unreadable.NoTTL, 1)
	m.Set("test:s:{other}", raw)
	m.SetTTL("test:s:{other}", time.Minute)
	assert.ErrorIs(t, second(strings1.Get(ctx, "other")), tiers.ErrMiss)
	assert.Equal(t, r.Stats().Unreadable.Key, 1)
	m.Del("test:s:{k}")
	_, err = m.Push("test:s:{k}", "a list of somebody's")
	assert.NoError(t, err)
	assert.ErrorIs(t, second(strings1.Get(ctx, "k")), tiers.ErrMiss)
	assert.Equal(t, r.Stats().Unreadable.Malformed, 2)
	assert.NoError(t, strings1.Set(ctx, "k", minute("v")))
	s, err := strings1.Get(ctx, "k")
	assert.NoError(t, err)
	assert.Equal(t, s.Value, "V")
	assert.Equal(t, r.Stats().Errors, 0)
}

type (
	user1 struct{ ID int }
	user2 struct {
		ID   int
		Name string
	}
)

// upper is a codec of a user's. It fails on "bad" and panics on "worse".
type upper struct{ id uint8 }

func (u upper) ID() uint8 { return u.id }

func (u upper) Encode(dst []byte, v string) ([]byte, error) {
	switch v {
	case "bad":
		return nil, errors.New("cannot encode the secret")
	case "worse":
		panic("the secret")
	}
	return append(dst, v...), nil
}

func (u upper) Decode(src []byte) (string, error) {
	if len(src) > 0 && src[0] == '!' {
		panic("cannot decode")
	}
	return strings.ToUpper(string(src)), nil
}

func TestAValueThatCannotBeEncodedIsATypedError(t *testing.T) {
	m := miniredis.RunT(t)
	r := open(t, redis.NewClient(plainOptions(m.Addr())), tiers.RedisOptions{MaxValueSize: 100})
	ctx := t.Context()
	floats := view[float64](t, r, "f", nil)
	assert.ErrorAs[*tiers.EncodeError](t, floats.Set(ctx, "k", minute(math.NaN())))
	v := view[string](t, r, "u", upper{16})
	for _, bad := range []string{"bad", "worse"} {
		err := v.Set(ctx, "k", minute(bad))
		assert.ErrorAs[*tiers.EncodeError](t, err)
		assert.True(t, !strings.Contains(err.Error(), "secret"), err)
	}
	assert.ErrorIs(t, v.Set(ctx, "k", minute(strings.Repeat("x", 101))), tiers.ErrTooLarge)
	assert.NoError(t, v.Set(ctx, "k", minute(strings.Repeat("x", 100))))
	assert.NoError(t, v.Set(ctx, "k", minute("!")))
	assert.ErrorIs(t, second(v.Get(ctx, "k")), tiers.ErrMiss)
	assert.Equal(t, r.Stats().EncodeErrors, 3)
	assert.Equal(t, r.Stats().TooLarge, 1)
	assert.Equal(t, r.Stats().Unreadable.Decode, 1)
	assert.NoError(t, r.Ready())
}

func TestNewRedisViewNamesTheField(t *testing.T) {
	r := open(t, redis.NewClient(plainOptions("localhost:6379")), tiers.RedisOptions{})
	for field, o := range map[string]tiers.RedisViewOptions[string, string]{
		"Name":  {Name: "a:b"},
		"Codec": {Name: "u", Codec: upper{3}}, // an id of this package's
	} {
		_, err := tiers.NewRedisView(r, o)
		assert.Equal(t, assert.ErrorAs[*tiers.OptionError](t, err).Field, field)
		assert.True(t, strings.HasPrefix(err.Error(), "tiers: RedisViewOptions."+field+" "), err)
	}
	_, err := tiers.NewRedisView(r, tiers.RedisViewOptions[[1]int, string]{Name: "u"})
	assert.Equal(t, assert.ErrorAs[*tiers.OptionError](t, err).Field, "Key")
}
