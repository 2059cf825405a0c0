package tiers

import (
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// openLocal opens a local tier that is closed when the test ends. Zero options make it small.
func openLocal(tb testing.TB, o LocalOptions) *Local {
	tb.Helper()
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	if o.EpochStripes == 0 {
		o.EpochStripes = 1 << 16
	}
	l, err := NewLocal(o)
	assert.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, l.Close(tb.Context())) })
	return l
}

func viewOf[K comparable, V any](tb testing.TB, l *Local) *LocalView[K, V] {
	tb.Helper()
	v, err := NewLocalView[K, V](l, LocalViewOptions[V]{})
	assert.NoError(tb, err)
	return v
}

// oneSlot returns a view whose keys all share one slot of the hot table.
func oneSlot[K comparable, V any](tb testing.TB, l *Local) *LocalView[K, V] {
	tb.Helper()
	v := viewOf[K, V](tb, l)
	v.mask = 0
	return v
}

// living is an entry whose load began at start and that is fresh for the given life from now.
func living[K comparable, V any](l *Local, key K, value V, start int64, life time.Duration) *Entry[K, V] {
	until := l.Now() + int64(life)
	return &Entry[K, V]{
		Key: key, Value: value, Start: start,
		EarlyFrom: until, Expires: until, CheckBy: until, StaleUntil: until, ErrorUntil: until,
	}
}

// put stores a value whose load began now, and returns its entry.
func put[K comparable, V any](tb testing.TB, v *LocalView[K, V], key K, value V) *Entry[K, V] {
	tb.Helper()
	e := living(v.local, key, value, v.local.Now(), time.Hour)
	assert.True(tb, v.Put(e, v.Epoch(key)), "put")
	return e
}

// holds checks what the view answers for a key, by both reads.
func holds[K comparable, V any](tb testing.TB, v *LocalView[K, V], key K, want V) {
	tb.Helper()
	e := v.Get(key)
	assert.True(tb, e != nil, "no entry")
	assert.Equal(tb, e.Key, key)
	assert.Equal(tb, e.Value, want)
	if f := v.Fresh(key); f != nil {
		assert.Equal(tb, f.Value, want, "of a fresh entry")
	}
}

func lacks[K comparable, V any](tb testing.TB, v *LocalView[K, V], key K) {
	tb.Helper()
	assert.True(tb, v.Fresh(key) == nil, "a fresh entry that should have gone")
	assert.True(tb, v.Get(key) == nil, "an entry that should have gone")
}

// settled waits until the capacity store has decided about everything that it was given.
func (l *Local) settled() { l.use(0, l.store.Wait) }

// consistent checks, in a quiet tier, that each entry of the hot table is counted exactly once: by the capacity store or
// as a loose one.
func consistent[K comparable, V any](tb testing.TB, v *LocalView[K, V]) {
	tb.Helper()
	v.local.settled()
	loose := int64(0)
	for i := range v.hot {
		e := v.hot[i].Load()
		if e == nil {
			continue
		}
		stored, _ := v.local.find(e.hash).(*Entry[K, V])
		assert.True(tb, stored == e != e.loose.Load(), "stored ", stored == e, ", loose ", e.loose.Load())
		if e.loose.Load() {
			loose += e.cost
		}
	}
	assert.Equal(tb, v.local.loose.Load(), loose, "loose bytes")
	assert.True(tb, loose <= v.local.looseMax, "too many loose bytes")
}
