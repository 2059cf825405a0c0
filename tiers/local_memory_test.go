package tiers

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// refusing makes the capacity store refuse every key that it does not hold yet.
func (l *Local) refusing() { l.store.UpdateMaxCost(1) }

// A value is there for the next read, whatever the capacity store thinks of it.
func TestFillIsVisibleWhateverTheStoreDecides(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: MinMaxBytes})
	v := viewOf[int, [100]byte](t, l)
	l.refusing()
	for i := range 2_000 {
		e := put(t, v, i, [100]byte{})
		assert.True(t, v.Fresh(i) == e, "fill ", i)
		assert.True(t, v.Get(i) == e, "fill ", i)
	}
	assert.Equal(t, l.Stats().Rejected, 2_000)
	consistent(t, v)
}

// A Set that the store drops because its buffer is full is a refusal like any other.
func TestFillIsVisibleWhenTheStoreIsBusy(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v := viewOf[string, int](t, l)
	release := l.stalled(t)
	filler := &blocking{func() {}}
	for n := uint64(2); l.store.Set(n, filler, 1); {
		n++
	}
	before := l.Stats().Rejected
	e := put(t, v, "k", 1) // does not wait for a store that did not take it
	assert.Equal(t, l.Stats().Rejected, before+1)
	assert.True(t, v.Fresh("k") == e)
	assert.True(t, e.loose.Load())
	close(release)
	l.settled()
	holds(t, v, "k", 1)
	consistent(t, v)
}

// The bytes that only the hot table holds stay within their bound, whoever has them, and come back to zero.
func TestLooseBytes(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: MinMaxBytes})
	v, other := viewOf[int, [100]byte](t, l), viewOf[int, [100]byte](t, l)
	l.refusing()
	for i := range 1_000 {
		put(t, v, i, [100]byte{})
		put(t, other, i, [100]byte{})
		assert.True(t, l.loose.Load() <= l.looseMax, l.loose.Load())
	}
	assert.True(t, l.loose.Load() > l.looseMax/2, "the bound is used")
	for i := range 1_000 {
		v.Invalidate(i)
	}
	other.Reset()
	v.Reset()
	assert.Equal(t, l.loose.Load(), 0)
	consistent(t, v)
	consistent(t, other)
}

// A value that is larger than all loose entries may be together goes itself, and drives none of them out.
func TestLargeRefusedEntryGoesAlone(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: MinMaxBytes})
	v := viewOf[int, []byte](t, l)
	l.refusing()
	put(t, v, 1, []byte("small"))
	before := l.loose.Load()
	assert.True(t, before > 0)
	put(t, v, 2, make([]byte, l.looseMax))
	lacks(t, v, 2)
	holds(t, v, 1, []byte("small"))
	assert.Equal(t, l.loose.Load(), before)
	consistent(t, v)
}

// An eviction takes the entry from the hot table too, or the budget would not hold.
func TestEvictionReachesTheHotTable(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: MinMaxBytes})
	v := viewOf[int, []byte](t, l)
	for i := range 3_000 {
		put(t, v, i, make([]byte, 500))
	}
	assert.True(t, l.Stats().Evicted+l.Stats().Rejected > 2_000)
	l.settled()
	held := int64(0)
	for i := range v.hot {
		if e := v.hot[i].Load(); e != nil {
			held += e.cost
		}
	}
	assert.True(t, held <= l.maxBytes, "the hot table holds ", held, " of ", l.maxBytes)
	consistent(t, v)
}

// ristretto#96, #329: values that grow on update. The store lets them grow past the budget; the tier does not.
func TestValuesThatGrow(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: 256 << 10})
	v := viewOf[int, []byte](t, l)
	for size := 100; size < 100_000; size *= 3 {
		for i := range 100 {
			e := put(t, v, i, make([]byte, size))
			l.settled()
			assert.True(t, l.Stats().Bytes <= l.Stats().MaxBytes, "after a fill: ", l.Stats().Bytes)
			if e.cost <= l.looseMax {
				holds(t, v, i, e.Value)
			}
		}
	}
	consistent(t, v)
}

// Many short-lived users of one large budget, all at once: memory returns to the bound, and so does the heap.
func TestChurnKeepsTheHeapFlat(t *testing.T) {
	const budget, size, fills = 4 << 20, 2 << 10, 8_000
	l := openLocal(t, LocalOptions{MaxBytes: budget})
	views := make([]*LocalView[string, []byte], 4)
	for i := range views {
		views[i] = viewOf[string, []byte](t, l)
	}
	churn := func(round int) {
		var wg sync.WaitGroup
		for w, v := range views {
			wg.Go(func() {
				for i := range fills / len(views) {
					key := fmt.Sprint(round, w, i)
					e := living(l, key, make([]byte, size+i%size), l.Now(), 1000*time.Hour)
					v.Put(e, v.Epoch(key))
					v.Get(fmt.Sprint(round, w, i/2))
				}
			})
		}
		wg.Wait()
		l.settled()
	}
	churn(0)
	before := heap()
	for round := range 3 {
		churn(1 + round)
		s := l.Stats()
		assert.True(t, s.Bytes <= s.MaxBytes, s.Bytes)
	}
	after := heap()
	assert.True(t, after < before+budget/4, "the heap grew from ", before, " to ", after)
	assert.True(t, after < 3*budget, "a budget of ", budget, " takes ", after)
	for _, v := range views {
		l.settled()
		for i := range v.hot {
			if e := v.hot[i].Load(); e != nil {
				assert.True(t, e.loose.Load() != (l.find(e.hash) == held(e)), "each entry is counted once")
			}
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// sturdyc#28: a thousand entries with one deadline, and room for nine tenths of them.
func TestEvictionTakesNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	const entries, room = 1000, 900
	probe := viewOf[int, [500]byte](t, openLocal(t, LocalOptions{}))
	cost := put(t, probe, 1, [500]byte{}).cost
	l := openLocal(t, LocalOptions{MaxBytes: cost * room * 16 / 15})
	v := viewOf[int, [500]byte](t, l)
	until := l.Now() + int64(time.Hour)
	for i := range entries {
		e := living(l, i, [500]byte{}, l.Now(), 0)
		e.EarlyFrom, e.Expires, e.CheckBy, e.StaleUntil, e.ErrorUntil = until, until, until, until, until
		assert.True(t, v.Put(e, v.Epoch(i)))
	}
	there := 0
	for i := range entries {
		if v.Get(i) != nil {
			there++
		}
	}
	assert.True(t, there >= room-20 && there <= entries-20, there, " of ", entries, " are left, with room for ", room)
}
