package tiers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/clock"
)

// inBubble runs f in a bubble with a tier that it opens and closes.
func inBubble(t *testing.T, f func(t *testing.T, l *Local)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLocal(LocalOptions{MaxBytes: MinMaxBytes, EpochStripes: 1 << 4})
		assert.NoError(t, err)
		defer l.Close(context.Background())
		f(t, l)
	})
}

// ristretto#195, freecache#118: a lifetime is right to two ticks, and never too long, whenever it began.
func TestFreshnessEndsInTime(t *testing.T) {
	t.Parallel()
	const step = 170 * time.Microsecond
	for _, life := range []time.Duration{300 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		for _, offset := range []time.Duration{0, 1, 950 * time.Millisecond, clock.Tick - 1, clock.Tick + 1} {
			inBubble(t, func(t *testing.T, l *Local) {
				t.Helper()
				<-time.NewTimer(offset).C
				v := viewOf[string, int](t, l)
				began := time.Now()
				assert.True(t, v.Put(living(l, "k", 1, l.Now(), life), v.Epoch("k")))
				<-time.NewTimer(life - 3*clock.Tick).C
				last := time.Duration(0)
				for time.Since(began) < life+2*clock.Tick {
					if v.Fresh("k") != nil {
						last = time.Since(began)
					}
					<-time.NewTimer(step).C
				}
				assert.True(t, last < life, "fresh at ", last, " of ", life)
				assert.True(t, last > life-2*clock.Tick-step, "fresh for ", last, " of ", life)
				assert.True(t, v.Get("k") != nil, "the caller of Get judges the times")
			})
		}
	}
}

// Freshness ends with the first of three deadlines.
func TestFreshnessEndsWithTheFirstDeadline(t *testing.T) {
	t.Parallel()
	for name, shorten := range map[string]func(e *Entry[string, int], at int64){
		"early refresh": func(e *Entry[string, int], at int64) { e.EarlyFrom = at },
		"expiry":        func(e *Entry[string, int], at int64) { e.Expires = at },
		"local life":    func(e *Entry[string, int], at int64) { e.CheckBy = at },
	} {
		inBubble(t, func(t *testing.T, l *Local) {
			t.Helper()
			v := viewOf[string, int](t, l)
			e := living(l, "k", 1, l.Now(), time.Hour)
			shorten(e, l.Now()+int64(time.Minute))
			assert.True(t, v.Put(e, v.Epoch("k")))
			<-time.NewTimer(time.Minute - 2*clock.Tick).C
			assert.True(t, v.Fresh("k") == e, name)
			<-time.NewTimer(2 * clock.Tick).C
			assert.True(t, v.Fresh("k") == nil, name)
			assert.True(t, v.Get("k") == e, name)
		})
	}
}

// A value that is born stale is stored, for its waiters and for an emergency, but it is never fresh.
func TestBornStale(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *Local) {
		t.Helper()
		v := viewOf[string, int](t, l)
		for _, life := range []time.Duration{0, -time.Second, clock.Tick} {
			e := living(l, "k", 1, l.Now(), life)
			assert.True(t, v.Put(e, v.Epoch("k")))
			assert.True(t, v.Fresh("k") == nil, life)
			assert.True(t, v.Get("k") == e, life)
		}
	})
}

// go-redis/cache#72: many keys of a short life, each with its own value.
func TestShortLives(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *Local) {
		t.Helper()
		v := viewOf[int, int](t, l)
		for i := range 3_000 {
			assert.True(t, v.Put(living(l, i, i, l.Now(), 15*time.Millisecond), v.Epoch(i)))
			for j := i; j > i-20 && j >= 0; j-- {
				if e := v.Fresh(j); e != nil {
					assert.Equal(t, e.Value, j)
					assert.True(t, e.Expires > l.Now(), "fresh after its end")
				}
			}
			if i%10 == 0 {
				<-time.NewTimer(time.Millisecond).C
			}
		}
	})
}

func TestFreshAllocatesNothing(t *testing.T) {
	l := openLocal(t, LocalOptions{})
	strs, ints := viewOf[string, string](t, l), viewOf[int64, [64]byte](t, l)
	put(t, strs, "a key of some length", "v")
	put(t, ints, 42, [64]byte{})
	for name, f := range map[string]func(){
		"string hit":  func() { assert.True(t, strs.Fresh("a key of some length") != nil) },
		"string miss": func() { assert.True(t, strs.Fresh("another key") == nil) },
		"int hit":     func() { assert.True(t, ints.Fresh(42) != nil) },
		"int miss":    func() { assert.True(t, ints.Fresh(43) == nil) },
		"Get":         func() { assert.True(t, ints.Get(42) != nil) },
		"Unmoved":     func() { assert.True(t, ints.Unmoved(42, ints.Epoch(42))) },
	} {
		assert.Equal(t, testing.AllocsPerRun(200, f), 0, name)
	}
}
