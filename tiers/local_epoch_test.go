package tiers

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
)

func TestInvalidateDuringALoad(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[string, int](t, l)
	at := v.Epoch("k")
	assert.True(t, v.Unmoved("k", at))
	v.Invalidate("k")
	assert.True(t, !v.Unmoved("k", at))
	assert.True(t, !v.Put(living(l, "k", 1, l.Now(), time.Hour), at), "its load began before the invalidation")
	lacks(t, v, "k")
	assert.Equal(t, l.Stats().Overtaken, 1)
	assert.Equal(t, l.Stats().Bytes, 0)
	put(t, v, "k", 2)
	holds(t, v, "k", 2)
}

func TestInvalidateEndsAnEntryAtOnce(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[string, int](t, l)
	put(t, v, "k", 1)
	v.Invalidate("k")
	lacks(t, v, "k")
	l.settled()
	assert.Equal(t, l.Stats().Bytes, 0)
	v.Invalidate("k")
	v.Invalidate("never seen")
	put(t, v, "k", 2)
	holds(t, v, "k", 2)
}

// The epoch alone must do: whatever the deletion missed is unusable all the same, in either part of the tier.
func TestOvertakenEntriesAreUnusable(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[string, int](t, l)
	for name, overtake := range map[string]func(){
		"invalidated": func() { v.Invalidate("k") },
		"reset":       v.Reset,
	} {
		e := put(t, v, "k", 1)
		overtake()
		v.hot[e.hash&v.mask].Store(e)
		lacks(t, v, "k")
		v.hot[e.hash&v.mask].Store(nil)
		l.store.Set(e.hash, e, e.cost)
		l.settled()
		lacks(t, v, "k")
		assert.True(t, v.hot[e.hash&v.mask].Load() == nil, name, ": a read brought it back to the hot table")
		put(t, v, "k", 2)
		holds(t, v, "k", 2)
	}
}

// A stripe is shared by many keys: moving it costs the others a miss and nothing else.
func TestOneStripeForAllKeys(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{EpochStripes: 1})
	v := viewOf[string, int](t, l)
	put(t, v, "a", 1)
	put(t, v, "b", 2)
	v.Invalidate("a")
	lacks(t, v, "a")
	lacks(t, v, "b")
	put(t, v, "b", 3)
	holds(t, v, "b", 3)
	consistent(t, v)
}

func TestResetEndsAllEntriesOfTheView(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[int, int](t, l)
	at := v.Epoch(0)
	for i := range 100 {
		put(t, v, i, i)
	}
	v.Reset()
	for i := range 100 {
		lacks(t, v, i)
	}
	assert.True(t, !v.Unmoved(0, at))
	assert.True(t, !v.Put(living(l, 0, 0, l.Now(), time.Hour), at), "its load began before the reset")
	put(t, v, 0, 7)
	holds(t, v, 0, 7)
	consistent(t, v)
}

// What a reader gets after an invalidation returned was put after it, however many readers and writers there are.
func TestInvalidateStress(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{EpochStripes: 1 << 4})
	for name, v := range map[string]*LocalView[int, int64]{"one slot": oneSlot[int, int64](t, l), "many slots": viewOf[int, int64](t, l)} {
		var source, acknowledged [4]atomic.Int64 // the value of each key in the source, and the one that was announced
		var wg sync.WaitGroup
		var stop atomic.Bool
		for range 2 {
			wg.Go(func() { // readers that fill
				for n := 0; !stop.Load(); n++ {
					k := n % len(source)
					least := acknowledged[k].Load()
					e := v.Fresh(k)
					if e == nil {
						e = v.Get(k)
					}
					if e == nil {
						at := v.Epoch(k)
						start := l.Now()
						e = living(l, k, source[k].Load(), start, time.Hour)
						v.Put(e, at)
						continue
					}
					if e.Value < least || e.Key != k {
						t.Errorf("%s: key %d is %d after the invalidation of %d", name, k, e.Value, least)
						return
					}
				}
			})
		}
		for n := range 4_000 {
			k := n % len(source)
			now := source[k].Add(1)
			v.Invalidate(k)
			acknowledged[k].Store(now)
		}
		stop.Store(true)
		wg.Wait()
		consistent(t, v)
	}
}
