package tiers

import (
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/snowshed-go/snowshed/internal/clock"
	"github.com/snowshed-go/snowshed/internal/size"
)

// LocalViewOptions configures a [LocalView].
type LocalViewOptions[V any] struct {
	// Size returns the bytes of memory that a value takes. By default it is estimated by walking the value.
	Size func(V) int
}

// LocalView is one cache's typed window on a [Local]. It is safe for concurrent use. Values that it returns are shared:
// do not modify them.
type LocalView[K comparable, V any] struct {
	local *Local
	clock *clock.Clock
	seed  maphash.Seed // its own, so that equal keys of two views have unrelated hashes
	era   atomic.Uint64
	mask  uint64
	hot   []atomic.Pointer[Entry[K, V]]
	size  func(V) int

	epochMask uint64
	epochs    []atomic.Uint32 // local's
}

// resetter is a view of any type.
type resetter interface{ Reset() }

// Epoch is the state of a key's invalidations at one moment.
type Epoch struct {
	n   uint32
	era uint64
}

// NewLocalView returns a window on l for one cache, or an error if l is nil or closed.
func NewLocalView[K comparable, V any](l *Local, o LocalViewOptions[V]) (*LocalView[K, V], error) {
	if l == nil {
		return nil, errors.New("tiers: NewLocalView needs a Local")
	}
	if o.Size == nil {
		o.Size = size.Of[V]
	}
	n := l.hotSlots()
	v := &LocalView[K, V]{
		local: l, clock: l.clock, seed: maphash.MakeSeed(),
		hot: make([]atomic.Pointer[Entry[K, V]], n), mask: uint64(n - 1), size: o.Size, //nolint:gosec // n is positive
		epochs: l.epochs, epochMask: uint64(len(l.epochs) - 1), //nolint:gosec // it has a stripe at least
	}
	v.era.Store(1)
	w := weak.Make(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() { // Close empties the views under mu, once
		return nil, errLocalClosed
	}
	l.views = slices.DeleteFunc(l.views, func(view func() resetter) bool { return view() == nil })
	l.views = append(l.views, func() resetter {
		if v := w.Value(); v != nil {
			return v
		}
		return nil
	})
	return v, nil
}

// Fresh is the hot path: the entry of key if it may be served with no other question asked, else nil. It takes no lock
// and allocates nothing. An entry is in use only if, at this moment, its key is equal, its era current, its epoch not
// overtaken and its deadline not passed.
func (v *LocalView[K, V]) Fresh(key K) *Entry[K, V] {
	h := maphash.Comparable(v.seed, key)
	e := v.hot[h&v.mask].Load()
	if e == nil || e.Key != key || e.freshUntil <= v.clock.Coarse() || !v.current(e, h) {
		return nil
	}
	return e
}

// Get returns the entry of key whatever its age, unless an invalidation has overtaken it. The caller judges its times.
func (v *LocalView[K, V]) Get(key K) *Entry[K, V] {
	h := maphash.Comparable(v.seed, key)
	slot := &v.hot[h&v.mask]
	hot := slot.Load()
	if hot != nil && hot.Key == key && v.current(hot, h) {
		return hot
	}
	e, ok := v.local.find(h).(*Entry[K, V])
	if !ok || e.view != v || e.Key != key || !v.current(e, h) {
		return nil
	}
	// Two keys that are hot alike may share a slot. Changing places only now and then spares them the writes.
	const oneIn = 8
	if hot == nil || !v.current(hot, hot.hash) || rand.Uint32N(oneIn) == 0 {
		v.promote(slot, hot, e)
	}
	return e
}

// Touch tells the capacity store that a hot entry is in use, so that it keeps it. A few calls in a hundred hits do.
func (v *LocalView[K, V]) Touch(e *Entry[K, V]) { v.local.find(e.hash) }

// Epoch returns the state of key's invalidations. Take it before the read or load whose result is to be put.
func (v *LocalView[K, V]) Epoch(key K) Epoch {
	h := maphash.Comparable(v.seed, key)
	return Epoch{n: v.epochs[h&v.epochMask].Load(), era: v.era.Load()}
}

// Unmoved reports whether nothing has invalidated key since at.
func (v *LocalView[K, V]) Unmoved(key K, at Epoch) bool { return v.Epoch(key) == at }

// Invalidate makes every entry of key unusable, those included whose load or fill is still under way.
func (v *LocalView[K, V]) Invalidate(key K) {
	h := maphash.Comparable(v.seed, key)
	v.epochs[h&v.epochMask].Add(1)
	v.remove(key, h)
}

// remove gives the memory of key's entry back. The hot table comes last: a new entry whose place in the store this
// takes away must not stay there uncounted.
func (v *LocalView[K, V]) remove(key K, h uint64) {
	v.local.remove(h)
	if e := v.hot[h&v.mask].Load(); e != nil && e.Key == key {
		v.drop(e)
	}
}

// Reset makes every entry of the view unusable at once.
func (v *LocalView[K, V]) Reset() {
	v.era.Add(1)
	for i := range v.hot {
		if e := v.hot[i].Load(); e != nil {
			v.drop(e)
		}
	}
}

// Put stores e, whose load or read began at the epoch at, and returns whether the next read may see it: not if key was
// invalidated since, if a newer value is there, or if it is larger than the whole tier.
func (v *LocalView[K, V]) Put(e *Entry[K, V], at Epoch) bool {
	e.hash = maphash.Comparable(v.seed, e.Key)
	e.epoch, e.era, e.view = at.n, at.era, v
	e.freshUntil = max(min(e.EarlyFrom, e.Expires, e.CheckBy), math.MinInt64+int64(clock.Tick)) - int64(clock.Tick)
	e.cost = v.cost(e)
	c := &v.local.counters
	if !v.current(e, e.hash) {
		c.overtaken.Add(1)
		return false
	}
	slot := &v.hot[e.hash&v.mask]
	for {
		old := slot.Load()
		if old != nil && old.Key == e.Key && !e.supersedes(old) || v.local.older(e.hash, e) {
			c.refused.Add(1)
			return false
		}
		if e.cost > v.local.maxBytes-v.local.looseMax {
			c.tooLarge.Add(1)
			v.remove(e.Key, e.hash) // whoever saw this value must not go back to an older one
			return false
		}
		if v.place(slot, old, e) {
			break
		}
	}
	if err := v.local.keep(e.hash, e, e.cost); err != nil {
		v.drop(e)
		return false
	}
	c.fills.Add(1)
	return true
}

// current reports whether nothing has overtaken the entry, whose key has the hash h.
func (v *LocalView[K, V]) current(e *Entry[K, V], h uint64) bool {
	return e.epoch == v.epochs[h&v.epochMask].Load() && e.era == v.era.Load()
}

// place puts e into a slot of the hot table if the slot still holds old.
func (v *LocalView[K, V]) place(slot *atomic.Pointer[Entry[K, V]], old, e *Entry[K, V]) bool {
	if !slot.CompareAndSwap(old, e) {
		return false
	}
	if old != nil {
		v.tighten(old)
	}
	return true
}

// promote puts an entry of the capacity store into the hot table, unless the store has given it up or replaced it
// meanwhile: nobody would tell the table any more.
func (v *LocalView[K, V]) promote(slot *atomic.Pointer[Entry[K, V]], hot, e *Entry[K, V]) {
	if v.place(slot, hot, e) && v.local.find(e.hash) != held(e) {
		v.drop(e)
	}
}

// drop takes e out of the hot table.
func (v *LocalView[K, V]) drop(e *Entry[K, V]) {
	v.hot[e.hash&v.mask].CompareAndSwap(e, nil)
	v.tighten(e)
}

// loosen counts an entry that only the hot table holds. If there are too many bytes of such, others go, or if there are
// no others in this table, it goes itself.
func (v *LocalView[K, V]) loosen(e *Entry[K, V]) {
	if e.loose.Swap(true) {
		return
	}
	l := v.local
	l.loose.Add(e.cost)
	if e.cost <= l.looseMax {
		from := rand.Uint64()
		for i := uint64(0); i <= v.mask && l.loose.Load() > l.looseMax; i++ {
			if o := v.hot[(from+i)&v.mask].Load(); o != nil && o != e && o.loose.Load() {
				v.drop(o)
			}
		}
	}
	if l.loose.Load() > l.looseMax || v.hot[e.hash&v.mask].Load() != e {
		v.drop(e)
	}
}

// tighten ends loosen's count.
func (v *LocalView[K, V]) tighten(e *Entry[K, V]) {
	if e.loose.Swap(false) {
		v.local.loose.Add(-e.cost)
	}
}

// cost estimates the bytes that an entry takes with all that keeps it: what lies behind its key and value, its own
// struct, and the maps of the capacity store.
func (v *LocalView[K, V]) cost(e *Entry[K, V]) int64 {
	const storeOverhead = 128
	own := int64(unsafe.Sizeof(*e)) //nolint:gosec // no type is that large
	n := int64(v.size(e.Value)) + int64(size.Of(e.Key)) + own + storeOverhead
	if n < 0 {
		return math.MaxInt64 // a Size that overflows: too large for any budget
	}
	return n
}
