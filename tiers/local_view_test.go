package tiers

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// ristretto#30, bigcache#362: whatever the hashes do, a key gets its own value or a miss.
func TestKeysThatShareASlot(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: 8 << 20})
	v := oneSlot[string, int](t, l)
	for i := range 1000 {
		put(t, v, fmt.Sprint("key", i), i)
	}
	for range 3 {
		for i := range 1000 {
			holds(t, v, fmt.Sprint("key", i), i)
		}
	}
	lacks(t, v, "key")
	consistent(t, v)
}

// Entries of other keys, other views and other types, all under the hash of one key.
func TestForeignEntryUnderTheHashOfAKey(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	sibling, stranger := viewOf[string, int](t, l), viewOf[int, string](t, l)
	for name, foreign := range map[string]func(v *LocalView[string, int]) held{
		"another key":  func(v *LocalView[string, int]) held { return put(t, v, "yours", 1) },
		"another view": func(*LocalView[string, int]) held { return put(t, sibling, "mine", 2) },
		"another type": func(*LocalView[string, int]) held { return put(t, stranger, 3, "three") },
	} {
		v := viewOf[string, int](t, l) // none of its epochs has moved, so nothing else gives the foreigner away
		hash := v.hashOf("mine")
		assert.True(t, l.store.Set(hash, foreign(v), 100), name)
		l.settled()
		v.hot[hash&v.mask].Store(nil)
		lacks(t, v, "mine")

		put(t, v, "mine", 9)
		holds(t, v, "mine", 9)
		v.hot[hash&v.mask].Store(nil)
		holds(t, v, "mine", 9)
		v.Invalidate("mine")
		lacks(t, v, "mine")

		v.hot[hash&v.mask].Store(put(t, v, "yours", 1))
		lacks(t, v, "mine")
	}
	holds(t, sibling, "mine", 2)
	holds(t, stranger, 3, "three")
}

func (v *LocalView[K, V]) hashOf(key K) uint64 {
	e := &Entry[K, V]{Key: key}
	at := v.Epoch(key)
	at.n++ // so that it is refused after its hash was taken
	v.Put(e, at)
	return e.hash
}

func TestViewsOfOneLocalAreStrangers(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	a, b := viewOf[int, string](t, l), viewOf[int, string](t, l)
	put(t, a, 1, "a")
	lacks(t, b, 1)
	put(t, b, 1, "b")
	holds(t, a, 1, "a")
	holds(t, b, 1, "b")
	a.Invalidate(1)
	lacks(t, a, 1)
	holds(t, b, 1, "b")
	put(t, a, 1, "a2")
	b.Reset()
	lacks(t, b, 1)
	holds(t, a, 1, "a2")
}

// freecache#6: nothing, empty and zero come back as themselves.
func TestEmptyValues(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	slices := viewOf[string, []byte](t, l)
	put(t, slices, "", nil)
	put(t, slices, "empty", []byte{})
	holds(t, slices, "", nil)
	holds(t, slices, "empty", []byte{})
	pointers := viewOf[struct{}, *int](t, l)
	put(t, pointers, struct{}{}, nil)
	holds(t, pointers, struct{}{}, nil)
	interfaces := viewOf[any, any](t, l)
	put[any, any](t, interfaces, nil, nil)
	holds[any, any](t, interfaces, nil, nil)
	lacks[any, any](t, interfaces, 0)

	e := living(l, "gone", []byte(nil), 1, time.Hour)
	e.NotFound = true
	assert.True(t, slices.Put(e, slices.Epoch("gone")))
	assert.True(t, slices.Get("gone").NotFound)
}

func TestKeysOfAnyComparableType(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	floats := viewOf[float64, int](t, l)
	put(t, floats, 0, 1)
	holds(t, floats, math.Copysign(0, -1), 1) // the two zeros are equal
	assert.True(t, floats.Put(living(l, math.NaN(), 1, 1, time.Hour), floats.Epoch(math.NaN())))
	lacks(t, floats, math.NaN()) // it is not even equal to itself

	type pair struct {
		a string
		b [2]int32
	}
	pairs := viewOf[pair, int](t, l)
	put(t, pairs, pair{"x", [2]int32{1, 2}}, 1)
	holds(t, pairs, pair{"x", [2]int32{1, 2}}, 1)
	lacks(t, pairs, pair{"x", [2]int32{1, 3}})
}

// In keys of an interface type, equal numbers of different types have equal hashes on common machines. The later fill
// takes the place, and the other key has a miss and not its value.
func TestKeysOfEqualHash(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[any, string](t, l)
	keys := []any{int32(1), int64(1), uint32(1), uint64(1), int(1), uint(1)}
	for range 3 {
		for _, k := range keys {
			put(t, v, k, fmt.Sprintf("%T", k))
			holds(t, v, k, fmt.Sprintf("%T", k))
			for _, other := range keys {
				if e := v.Get(other); e != nil {
					assert.Equal(t, e.Value, fmt.Sprintf("%T", other))
				}
			}
		}
	}
	v.Invalidate(keys[0])
	lacks(t, v, keys[0])
}

func TestNewestWins(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[string, int](t, l)
	at := v.Epoch("k")
	assert.True(t, v.Put(living(l, "k", 2, 20, time.Hour), at))
	assert.True(t, !v.Put(living(l, "k", 1, 10, time.Hour), at), "an older load that ends later")
	holds(t, v, "k", 2)
	assert.Equal(t, l.Stats().Older, 1)
	assert.True(t, v.Put(living(l, "k", 3, 20, time.Hour), at), "as old: the later fill")
	holds(t, v, "k", 3)
	assert.True(t, v.Put(living(l, "k", 4, 30, time.Hour), at))
	holds(t, v, "k", 4)
	consistent(t, v)
}

// The newer value need not be in the hot table: another key may have its slot.
func TestNewestWinsBehindADisplacedSlot(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := oneSlot[string, int](t, l)
	at := v.Epoch("k")
	assert.True(t, v.Put(living(l, "k", 2, 20, time.Hour), at))
	put(t, v, "in its slot", 0)
	before := l.Stats().Bytes
	assert.True(t, !v.Put(living(l, "k", 1, 10, time.Hour), at), "an older load that ends later")
	holds(t, v, "k", 2)
	put(t, v, "in its slot", 0)
	holds(t, v, "k", 2)
	l.settled()
	assert.Equal(t, l.Stats().Bytes, before)
	consistent(t, v)
}

// Nor need it be in the capacity store, which may have refused it.
func TestNewestWinsAmongLooseEntries(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[string, int](t, l)
	l.refusing()
	at := v.Epoch("k")
	assert.True(t, v.Put(living(l, "k", 2, 20, time.Hour), at))
	assert.True(t, !v.Put(living(l, "k", 1, 10, time.Hour), at))
	holds(t, v, "k", 2)
	assert.True(t, v.Put(living(l, "k", 3, 30, time.Hour), at))
	holds(t, v, "k", 3)
	consistent(t, v)
}

// An older value that looked for a newer one before that was there comes to the capacity store all the same.
func TestOlderFillPastItsCheck(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := oneSlot[string, int](t, l)
	older := living(l, "k", 1, 10, time.Hour)
	at := v.Epoch("k")
	at.n++
	v.Put(older, at) // refused, but all its fields are set now
	older.epoch--

	assert.True(t, v.Put(living(l, "k", 2, 20, time.Hour), v.Epoch("k")))
	in := put(t, v, "in its slot", 0)
	assert.True(t, v.place(&v.hot[0], in, older))
	assert.NoError(t, l.keep(older.hash, older, older.cost))
	holds(t, v, "k", 2)
	put(t, v, "in its slot", 0)
	holds(t, v, "k", 2)
	consistent(t, v)
}

// A reader found an entry in the capacity store, which gave it up before the reader could bring it to the hot table.
func TestEntryThatLeftIsNotMadeHot(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[string, int](t, l)
	e := put(t, v, "k", 1)
	slot := &v.hot[e.hash&v.mask]
	l.remove(e.hash)
	v.drop(e)
	v.promote(slot, nil, e)
	lacks(t, v, "k")

	older := put(t, v, "k", 2)
	newer := put(t, v, "k", 3)
	slot.Store(nil)
	v.promote(slot, nil, older)
	holds(t, v, "k", 3)
	assert.True(t, v.Get("k") == newer)
	consistent(t, v)
}

// Put returns when the store has decided, so nothing of it can land later.
func TestPutWaitsForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLocal(LocalOptions{MaxBytes: MinMaxBytes, EpochStripes: 1})
		assert.NoError(t, err)
		v := viewOf[string, int](t, l)
		release, returned := l.stalled(t), false
		go func() {
			v.Put(living(l, "k", 1, 10, time.Hour), v.Epoch("k"))
			returned = true
		}()
		synctest.Wait()
		assert.True(t, !returned, "Put returned before the store had decided")
		assert.True(t, v.Fresh("k") != nil, "but readers have the value")
		close(release)
		synctest.Wait()
		assert.True(t, returned)
		assert.NoError(t, l.Close(context.Background()))
	})
}

// A newer value that is too large to keep ends the older one: a reader who saw it must not go back.
func TestTooLargeEndsTheOlderValue(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: MinMaxBytes})
	v := oneSlot[string, []byte](t, l)
	for _, displaced := range []bool{false, true} {
		put(t, v, "k", []byte("old"))
		if displaced {
			put(t, v, "in its slot", nil)
		}
		e := living(l, "k", make([]byte, MinMaxBytes), l.Now(), time.Hour)
		assert.True(t, !v.Put(e, v.Epoch("k")))
		lacks(t, v, "k")
		consistent(t, v)
	}
	assert.Equal(t, l.Stats().TooLarge, 2)

	e := put(t, v, "k", []byte("new"))
	assert.True(t, !v.Put(living(l, "k", make([]byte, MinMaxBytes), e.Start-1, time.Hour), v.Epoch("k")))
	holds(t, v, "k", []byte("new"))
}

// Two fills of a new key at the same moment: the capacity store takes the first that arrives, and both sides may lose.
// Here it takes the older one (trace 11 of the protocol, with both fills by this process).
func TestOlderFillArrivesFirst(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := oneSlot[string, int](t, l)
	for round := range 200 {
		key := fmt.Sprint("k", round)
		older, newer := living(l, key, 1, 10, time.Hour), living(l, key, 2, 20, time.Hour)
		ready := make(chan struct{})
		done := make(chan bool)
		for _, e := range []*Entry[string, int]{older, newer} {
			go func() {
				<-ready
				v.Put(e, v.Epoch(key))
				done <- true
			}()
		}
		close(ready)
		<-done
		<-done
		put(t, v, "in its slot", 0)
		holds(t, v, key, 2)
		consistent(t, v)
	}
}

// The same, with the order of arrival given: the older one's Set is pending when the newer one's is sent.
func TestPendingSetOfAnOlderValue(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := oneSlot[string, int](t, l)
	at := v.Epoch("k")
	older, newer := living(l, "k", 1, 10, time.Hour), living(l, "k", 2, 20, time.Hour)
	at.n++
	v.Put(older, at) // refused, but all its fields are set now
	older.epoch--

	release := l.stalled(t)
	assert.True(t, l.store.Set(older.hash, older, older.cost), "it waits in the buffer")
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.Put(newer, v.Epoch("k"))
	}()
	assert.Eventually(t, 10*time.Second, func() bool { return v.Fresh("k") == newer })
	close(release)
	<-done
	holds(t, v, "k", 2)
	put(t, v, "in its slot", 0)
	holds(t, v, "k", 2)
	consistent(t, v)
}

// stalled makes the capacity store stand still until the returned channel is closed.
func (l *Local) stalled(t *testing.T) chan struct{} {
	t.Helper()
	release, entered := make(chan struct{}), make(chan struct{})
	block := &blocking{func() {
		close(entered)
		<-release
	}}
	l.store.Set(1, block, l.store.MaxCost()+1) // larger than everything: refused, and the refusal blocks
	<-entered
	return release
}

// blocking is an entry of a stranger, whose refusal takes as long as a test wants.
type blocking struct{ refused func() }

func (b *blocking) evicted()             {}
func (b *blocking) rejected()            { b.refused() }
func (b *blocking) supersedes(held) bool { return true }

func TestTimesBeforeAllTimeAreOver(t *testing.T) {
	v := viewOf[string, int](t, openLocal(t, LocalOptions{}))
	e := &Entry[string, int]{
		Key: "a", Value: 1, EarlyFrom: math.MinInt64, Expires: math.MinInt64, CheckBy: math.MinInt64,
		StaleUntil: math.MinInt64, ErrorUntil: math.MinInt64,
	}
	v.Put(e, v.Epoch("a"))
	assert.Equal(t, v.Fresh("a"), nil)
}
