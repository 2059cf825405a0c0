package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/tiers"
)

// deafGuard neither admits nor refuses, whatever its ctx says.
type deafGuard struct{ *pause }

func (g deafGuard) Acquire(context.Context) (protection.Permit, error) {
	g.stand()
	return protection.Permit{}, nil
}

func TestI6EveryCallReturnsByItsCtx(t *testing.T) {
	const limit, allowance = 100 * time.Millisecond, 5 * time.Millisecond
	hang := func(p *pause) func(context.Context, string) (int, error) {
		return func(context.Context, string) (int, error) { p.stand(); return 1, nil }
	}
	for name, setUp := range map[string]func(*testing.T, *options, *pause){
		"hanging loader": func(_ *testing.T, o *options, p *pause) { o.Load = hang(p) },
		"hanging guard":  func(_ *testing.T, o *options, p *pause) { o.Guard = deafGuard{p} },
		"black-holed Redis": func(t *testing.T, o *options, p *pause) {
			t.Helper()
			w := newWorldWith(t, tiers.RedisOptions{Timeout: time.Hour})
			for _, command := range []string{"get", "set", "unlink"} {
				w.wire.add(&rule{command: command, always: true, before: func() error { p.stand(); return nil }})
			}
			o.Remote = w.Redis
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, o := newPause(), good()
				o.LoadTimeout = 2 * time.Hour
				setUp(t, &o, p)
				c := open(t, o)
				defer p.release()
				for method, call := range map[string]func(context.Context) error{
					"Get":    func(ctx context.Context) error { _, err := c.Get(ctx, "a"); return err },
					"Lookup": func(ctx context.Context) error { _, err := c.Lookup(ctx, "a", cache.Read{}); return err },
					"Lookup aged": func(ctx context.Context) error {
						_, err := c.Lookup(ctx, "a", cache.Read{MaxAge: time.Second})
						return err
					},
					"Lookup only": func(ctx context.Context) error { _, err := c.Lookup(ctx, "a", cache.Read{NoLoad: true}); return err },
					"Refresh":     func(ctx context.Context) error { _, err := c.Refresh(ctx, "a"); return err },
					"Invalidate":  func(ctx context.Context) error { return c.Invalidate(ctx, "a", "b") },
				} {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					began := time.Now()
					err := call(ctx)
					took := time.Since(began)
					assert.True(t, took <= limit+allowance, method, " took ", took, ": ")
					if err == nil {
						assert.True(t, took < limit, method, " succeeded after its ctx: ")
					}
					cancel()
				}
			})
		})
	}
}

// Without a deadline of the caller's own, LoadTimeout and the tier's Timeout bound a call.
func TestI6BlackHoledRedisCostsItsTimeoutAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newPause(), newWorldWith(t, tiers.RedisOptions{})
		for _, command := range []string{"get", "set"} {
			w.wire.add(&rule{command: command, always: true, before: func() error { p.stand(); return nil }})
		}
		defer p.release()
		o := good()
		o.Remote = w.Redis
		c := open(t, o)
		began := time.Now()
		is(t, 1)(c.Get(t.Context(), "a"))
		assert.True(t, time.Since(began) <= 600*time.Millisecond, "took ", time.Since(began), ": ")
	})
}

// Random calls on few keys whose loads are slow, fail, are refused, are absent or ask not to be stored, from many
// goroutines: when all have returned, the counters add up and nothing is held.
func TestI12CountersAddUp(t *testing.T) {
	for _, redis := range []bool{false, true} {
		t.Run(fmt.Sprintf("redis=%v", redis), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, 4)
				var calls, loads atomic.Uint64
				o := cache.Options[int, int]{
					TTL: 20 * time.Millisecond, NegativeTTL: 10 * time.Millisecond, Guard: g, LoadTimeout: 15 * time.Millisecond,
					SoftTimeout: 3 * time.Millisecond, RetryBackoff: 5 * time.Millisecond, Refreshers: 2,
					Load: func(ctx context.Context, k int) (int, error) {
						loads.Add(1)
						err := rest(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
						switch rand.IntN(8) {
						case 0:
							return 0, errSource
						case 1:
							return 0, cache.ErrNotFound
						case 2:
							panic("no")
						}
						return k, err
					},
				}
				if redis {
					o.Remote = newWorldWith(t, tiers.RedisOptions{}).Redis
				}
				c := open(t, o)
				var wg sync.WaitGroup
				for range 16 {
					wg.Go(func() {
						for range 100 {
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(20))*time.Millisecond)
							k := rand.IntN(8)
							switch rand.IntN(10) {
							case 0:
								_ = c.Invalidate(t.Context(), k)
							case 1:
								_, _ = c.Refresh(ctx, k)
							case 2:
								calls.Add(1)
								_, _ = c.Lookup(ctx, k, cache.Read{NoLoad: true})
							case 3:
								calls.Add(1)
								_, _ = c.Lookup(ctx, k, cache.Read{MaxAge: time.Duration(rand.IntN(10)-1) * time.Millisecond})
							case 4:
								g.shut.Store(rand.IntN(2) == 0)
							default:
								calls.Add(1)
								if v, err := c.Get(ctx, k); (v != k || err != nil) && (v != 0 || err == nil) {
									t.Errorf("got %d, %v for %d", v, err, k)
								}
							}
							cancel()
							_ = rest(t.Context(), time.Duration(rand.IntN(4))*time.Millisecond)
						}
					})
				}
				wg.Wait()
				time.Sleep(time.Second)
				s := c.Stats()
				assert.Equal(t, reads(s), calls.Load(), fmt.Sprintf("%+v", s))
				assert.Equal(t, s.Loads, loads.Load())
				assert.Equal(t, [...]int64{s.Loading, s.Orphans, int64(g.InFlight()), int64(g.Queued())}, [4]int64{})
				for name, n := range map[string]uint64{
					"Fresh": s.Fresh, "Negative": s.Negative, "Stale": s.Stale, "Loaded": s.Loaded, "Rejected": s.Rejected,
					"Failed": s.Failed, "Cancelled": s.Cancelled, "NotCached": s.NotCached,
				} {
					assert.True(t, n > 0, name, " is zero, so the test does not see it: ")
				}
			})
		})
	}
}

// Each way in which a read can end is counted as what it is.
func TestI12EachEndHasItsCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, g := &source{}, newGuard(t, 1)
		c := open(t, cache.Options[string, int]{
			Load: src.Load, TTL: 10 * time.Second, StaleIfError: time.Second, StaleWhileRevalidate: off, Jitter: off, Guard: g,
			RetryBackoff: time.Second, MaxRetryBackoff: time.Second,
		})
		last := c.Stats()
		counted := func(what string, want cache.Stats) {
			t.Helper()
			s := c.Stats()
			got := [...]uint64{
				s.Fresh - last.Fresh, s.Negative - last.Negative, s.Stale - last.Stale, s.Loaded - last.Loaded, s.Rejected - last.Rejected,
				s.Failed - last.Failed, s.Cancelled - last.Cancelled, s.Closed - last.Closed, s.NotCached - last.NotCached,
			}
			assert.Equal(t, got, [...]uint64{
				want.Fresh, want.Negative, want.Stale, want.Loaded, want.Rejected,
				want.Failed, want.Cancelled, want.Closed, want.NotCached,
			}, what)
			last = s
		}
		get := func(ctx context.Context) { _, _ = c.Get(ctx, "a") }
		_, _ = c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
		counted("looked only", cache.Stats{NotCached: 1})
		get(t.Context())
		counted("led a load", cache.Stats{Loaded: 1})
		get(t.Context())
		counted("hit", cache.Stats{Fresh: 1})
		_, _ = c.Lookup(t.Context(), "a", cache.Read{NoLoad: true})
		counted("looked and found", cache.Stats{Fresh: 1})
		src.fails()
		time.Sleep(10 * time.Second)
		get(t.Context())
		counted("stale after a failure", cache.Stats{Stale: 1})
		get(t.Context())
		counted("stale at rest", cache.Stats{Stale: 1})
		time.Sleep(time.Second)
		get(t.Context())
		counted("failed", cache.Stats{Failed: 1})
		get(t.Context())
		counted("at rest", cache.Stats{Rejected: 1})
		time.Sleep(time.Second)
		g.shut.Store(true)
		get(t.Context())
		counted("refused", cache.Stats{Rejected: 1})
		g.shut.Store(false)
		src.does(absent)
		get(t.Context())
		counted("loaded not-found", cache.Stats{Loaded: 1})
		get(t.Context())
		counted("negative", cache.Stats{Negative: 1})
		time.Sleep(30 * time.Second)
		src.does(nil)
		src.takes.Store(int64(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		get(ctx)
		counted("cancelled", cache.Stats{Cancelled: 1})
		_, _ = c.Lookup(t.Context(), "a", cache.Read{MaxAge: off})
		counted("a bad argument", cache.Stats{Failed: 1})
		assert.NoError(t, c.Close(t.Context()))
		get(t.Context())
		counted("closed", cache.Stats{Closed: 1})
	})
}

// Every key hashes to one stripe and many share a slot: a value is never another key's.
func TestI11ValuesAreAlwaysTheKeysOwn(t *testing.T) {
	keys := 20_000
	if testing.Short() || raceEnabled {
		keys = 4_000
	}
	local := newLocal(t, tiers.LocalOptions{MaxBytes: 2 << 20, EpochStripes: 1})
	open2 := func(name string, sign int) *cache.Cache[int, int] {
		return open(t, cache.Options[int, int]{
			Name: name, Local: local, TTL: time.Minute, Load: func(_ context.Context, k int) (int, error) { return sign * k, nil },
		})
	}
	plus, minus := open2("plus", 1), open2("minus", -1)
	for range 2 {
		for k := range keys {
			is(t, k)(plus.Get(t.Context(), k))
			is(t, -k)(minus.Get(t.Context(), k))
		}
	}
}
