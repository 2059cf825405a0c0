package tiers

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/snowshed-go/snowshed/internal/assert"
)

func TestClosedLocalHoldsNothing(t *testing.T) {
	t.Parallel()
	l, err := NewLocal(LocalOptions{MaxBytes: MinMaxBytes, EpochStripes: 1})
	assert.NoError(t, err)
	v := viewOf[int, [100]byte](t, l)
	stored := put(t, v, 0, [100]byte{})
	l.refusing()
	loose := put(t, v, 1, [100]byte{})
	assert.True(t, loose.loose.Load())
	at := v.Epoch(1)

	assert.NoError(t, l.Close(t.Context()))
	assert.NoError(t, l.Close(t.Context()), "again")
	lacks(t, v, stored.Key)
	lacks(t, v, loose.Key)
	for i := range v.hot {
		assert.True(t, v.hot[i].Load() == nil)
	}
	assert.Equal(t, l.Stats().Bytes, 0)
	assert.Equal(t, l.loose.Load(), 0)

	fills := l.Stats().Fills
	assert.True(t, !v.Put(living(l, 1, [100]byte{}, l.Now(), time.Hour), at), "with an epoch from before")
	assert.True(t, !v.Put(living(l, 1, [100]byte{}, l.Now(), time.Hour), v.Epoch(1)), "with an epoch from after")
	lacks(t, v, 1)
	assert.Equal(t, l.Stats().Fills, fills)
	v.Touch(stored)
	v.Invalidate(1)
	v.Reset()
	late, err := NewLocalView[int, int](l, LocalViewOptions[int]{})
	assert.ErrorIs(t, err, errLocalClosed)
	assert.True(t, late == nil)
}

// A cache that is gone leaves its view to the garbage collector, though the tier lives on.
func TestLocalKeepsNoView(t *testing.T) {
	l := openLocal(t, LocalOptions{})
	gone := func() weak.Pointer[LocalView[int, int]] { return weak.Make(viewOf[int, int](t, l)) }()
	assert.Eventually(t, 10*time.Second, func() bool {
		runtime.GC()
		return gone.Value() == nil
	})
	viewOf[int, int](t, l)
	assert.Equal(t, len(l.views), 1, "what is left of views")
	assert.NoError(t, l.Close(t.Context()))
}

// ristretto#202, redpanda connect#1886: everything at once, and Close twice in the middle of it.
func TestLocalStress(t *testing.T) {
	t.Parallel()
	for _, rounds := range []int{0, 1, 10, 100, 1_000, 3_000} {
		l, err := NewLocal(LocalOptions{MaxBytes: MinMaxBytes, EpochStripes: 1 << 4})
		assert.NoError(t, err)
		strs, ints := viewOf[string, []byte](t, l), oneSlot[int, int](t, l)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for n := range 1_000 {
					mixed(t, strs, w, n)
					k := n % 50
					switch n % 4 {
					case 0:
						ints.Put(living(l, k, k, l.Now(), time.Hour), ints.Epoch(k))
					case 1:
						ints.Invalidate(k)
					default:
						if e := ints.Get(k); e != nil && e.Value != k {
							t.Errorf("key %d has the value %d", k, e.Value)
						}
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for range rounds {
					runtime.Gosched()
				}
				if err := l.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, l.loose.Load(), 0, "loose bytes after Close")
		for i := range strs.hot {
			assert.True(t, strs.hot[i].Load() == nil, "an entry after Close")
		}
		assert.True(t, ints.hot[0].Load() == nil, "an entry after Close")
		assert.True(t, !strs.Put(living(l, "k", []byte(nil), l.Now(), time.Hour), strs.Epoch("k")))
	}
}

// The same without Close: in the end every entry is counted once, and the budget holds.
func TestLocalStressKeepsCount(t *testing.T) {
	t.Parallel()
	for range 3 {
		l := openLocal(t, LocalOptions{MaxBytes: MinMaxBytes, EpochStripes: 1 << 4})
		v := viewOf[string, []byte](t, l)
		v.mask = 7 // slots change hands all the time
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for n := range 2_000 {
					mixed(t, v, w, n)
				}
			})
		}
		wg.Wait()
		consistent(t, v)
		assert.True(t, l.Stats().Bytes <= l.Stats().MaxBytes, l.Stats().Bytes)
	}
}

// mixed is one operation of worker w, whose kind and key depend on n.
func mixed(t *testing.T, v *LocalView[string, []byte], w, n int) {
	t.Helper()
	key := fmt.Sprint("key", (n*7+w)%200)
	check := func(e *Entry[string, []byte]) {
		if e != nil && (e.Key != key || string(e.Value[:len(key)]) != key) {
			t.Errorf("key %s has the entry of %s", key, e.Key)
		}
	}
	switch n % 16 {
	case 0:
		v.Invalidate(key)
	case 1:
		if n%500 == 1 {
			v.Reset()
		}
	case 2, 3, 4, 5:
		value := append([]byte(key), make([]byte, (n*n)%2_000)...)
		v.Put(living(v.local, key, value, v.local.Now(), time.Hour), v.Epoch(key))
	case 6, 7, 8:
		e := v.Get(key)
		check(e)
		if e != nil {
			v.Touch(e)
		}
	case 9:
		v.local.Stats()
	default:
		check(v.Fresh(key))
	}
}
