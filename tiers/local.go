package tiers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/snowshed-go/snowshed/internal/clock"
)

// The defaults and bounds of LocalOptions.
const (
	DefaultMaxBytes     = 64 << 20
	MinMaxBytes         = 64 << 10
	DefaultEpochStripes = 1 << 20
)

// LocalOptions configures a [Local]. The zero value is good.
type LocalOptions struct {
	// MaxBytes bounds the memory of all entries of all caches that share the tier. Default 64 MiB, at least 64 KiB.
	MaxBytes int64
	// EpochStripes is the size of the table by which invalidations take effect, 4 bytes each: a power of two. An
	// invalidation of one key costs about one false miss for each multiple of this number of keys in use. Default 2^20.
	EpochStripes int
}

func (o LocalOptions) withDefaults() (LocalOptions, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.EpochStripes == 0 {
		o.EpochStripes = DefaultEpochStripes
	}
	if o.MaxBytes < MinMaxBytes {
		return o, fmt.Errorf("tiers: LocalOptions.MaxBytes is %d, less than the least useful size of %d", o.MaxBytes, MinMaxBytes)
	}
	if o.EpochStripes < 1 || o.EpochStripes > 1<<28 || o.EpochStripes&(o.EpochStripes-1) != 0 {
		return o, fmt.Errorf("tiers: LocalOptions.EpochStripes is %d, not a power of two up to 2^28", o.EpochStripes)
	}
	return o, nil
}

// Local is the memory budget and the capacity store of one process, shared by its caches. It is safe for concurrent
// use. Close it after the caches that use it.
type Local struct {
	clock    *clock.Clock
	store    *ristretto.Cache[uint64, held]
	epochs   []atomic.Uint32
	maxBytes int64

	gates  [gates]storeGate // held shared around every use of store, which must not be used while it closes
	closed atomic.Bool
	mu     sync.Mutex
	views  []func() resetter // which it keeps from no garbage collection; nil: collected

	loose    atomic.Int64 // bytes of entries that only hot tables hold
	looseMax int64
	counters localCounters
}

const gates = 16

type storeGate struct {
	sync.RWMutex
	_ [128 - 24]byte
}

type localCounters struct {
	fills, overtaken, refused, tooLarge, evicted, rejected atomic.Uint64
}

// LocalStats counts what happened in a [Local] since it was opened.
type LocalStats struct {
	Fills     uint64 // entries put
	Overtaken uint64 // entries refused because an invalidation came during their load
	Older     uint64 // entries refused because a newer value of the key was there
	TooLarge  uint64 // entries larger than the whole budget
	Evicted   uint64 // entries that left for others
	Rejected  uint64 // entries that the capacity store would not take or lost in a full buffer
	Bytes     int64  // the estimated size of what is held
	MaxBytes  int64
}

// NewLocal opens a local tier.
func NewLocal(o LocalOptions) (*Local, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Local{
		epochs:   make([]atomic.Uint32, o.EpochStripes),
		maxBytes: o.MaxBytes,
		looseMax: o.MaxBytes / 16,
	}
	const bytesPerEntry, countersPerEntry, maxCounters = 1 << 10, 10, 1 << 24
	l.store, err = ristretto.NewCache(&ristretto.Config[uint64, held]{
		NumCounters:        max(1024, min(o.MaxBytes/bytesPerEntry, maxCounters/countersPerEntry)*countersPerEntry),
		MaxCost:            o.MaxBytes - l.looseMax,
		BufferItems:        64,
		IgnoreInternalCost: true, // costs are bytes and count it already
		KeyToHash:          func(h uint64) (uint64, uint64) { return h, 0 },
		ShouldUpdate:       func(cur, prev held) bool { return cur.supersedes(prev) },
		OnEvict:            func(i *ristretto.Item[held]) { l.evict(i.Value) },
		OnReject:           func(i *ristretto.Item[held]) { l.refuse(i.Key, i.Value, i.Cost) },
	})
	if err != nil {
		return nil, fmt.Errorf("tiers: opening the local tier: %w", err)
	}
	l.clock = clock.Start()
	return l, nil
}

func (l *Local) evict(e held) {
	if e != nil {
		l.counters.evicted.Add(1)
		e.evicted()
	}
}

// refuse deals with an entry that the capacity store did not take. Mostly it is not worth its room. But of two entries of
// a new key that arrive at the same moment the store takes the first, whichever is newer.
func (l *Local) refuse(hash uint64, e held, cost int64) {
	if _, there := l.store.GetTTL(hash); there { // which unlike Get does not count as a use
		switch other, _ := l.store.Get(hash); {
		case other == nil:
		case e.supersedes(other):
			l.store.Set(hash, e, cost) // an update, which takes effect at once
			return
		default:
			l.counters.refused.Add(1)
			e.evicted()
			return
		}
	}
	l.counters.rejected.Add(1)
	e.rejected()
}

// Now returns the exact time on the tier's clock, in nanoseconds.
func (l *Local) Now() int64 { return l.clock.Now() }

// Close releases everything and stops the tier's goroutines. Views of it then hold nothing and refuse fills. It may be
// called again.
func (l *Local) Close(context.Context) error {
	for i := range l.gates {
		l.gates[i].Lock()
	}
	if !l.closed.Swap(true) {
		l.store.Close()
		l.clock.Stop()
		l.mu.Lock()
		for _, view := range l.views {
			if v := view(); v != nil {
				v.Reset() // of the entries that only hot tables hold
			}
		}
		l.mu.Unlock()
	}
	for i := range l.gates {
		l.gates[i].Unlock()
	}
	return nil
}

// errLocalClosed tells a fill, or who wants a view, that the tier has gone.
var errLocalClosed = errors.New("tiers: the local tier is closed")

// use runs fn while the capacity store is sure to be open.
func (l *Local) use(hash uint64, fn func()) error {
	g := &l.gates[hash>>60]
	g.RLock()
	defer g.RUnlock()
	if l.closed.Load() {
		return errLocalClosed
	}
	fn()
	return nil
}

// find returns what the capacity store holds for a hash, and tells its admission policy that it was asked for.
func (l *Local) find(hash uint64) held {
	g := &l.gates[hash>>60]
	g.RLock()
	var e held
	if !l.closed.Load() {
		e, _ = l.store.Get(hash)
	}
	g.RUnlock()
	return e
}

// older reports whether the capacity store holds a newer value of e's key.
func (l *Local) older(hash uint64, e held) bool {
	older := false
	_ = l.use(hash, func() { //nolint:errcheck // a closed tier holds nothing
		if _, there := l.store.GetTTL(hash); there {
			other, _ := l.store.Get(hash)
			older = other != nil && !e.supersedes(other)
		}
	})
	return older
}

// keep gives an entry to the capacity store and waits until the store has decided. Without the wait an older value
// that is still on its way could land after a newer one.
func (l *Local) keep(hash uint64, e held, cost int64) error {
	return l.use(hash, func() {
		if !l.store.Set(hash, e, cost) {
			l.refuse(hash, e, cost)
			return
		}
		l.store.Wait()
		if l.store.RemainingCost() < 0 {
			// The store lets an update grow past the budget. Giving the entry up brings the budget back at once.
			l.store.Del(hash)
			l.counters.rejected.Add(1)
			e.rejected()
		}
	})
}

// remove takes whatever has the hash out of the capacity store.
func (l *Local) remove(hash uint64) {
	_ = l.use(hash, func() { l.store.Del(hash) }) //nolint:errcheck // a closed tier holds nothing
}

// Stats returns the tier's counters.
func (l *Local) Stats() LocalStats {
	s := LocalStats{
		Fills:     l.counters.fills.Load(),
		Overtaken: l.counters.overtaken.Load(),
		Older:     l.counters.refused.Load(),
		TooLarge:  l.counters.tooLarge.Load(),
		Evicted:   l.counters.evicted.Load(),
		Rejected:  l.counters.rejected.Load(),
		MaxBytes:  l.maxBytes,
	}
	_ = l.use(0, func() { s.Bytes = l.store.MaxCost() - l.store.RemainingCost() + l.loose.Load() }) //nolint:errcheck // a closed tier holds nothing
	return s
}

// hotSlots is the size of a cache's hot table: a part of the budget's likely number of entries.
func (l *Local) hotSlots() int {
	const least, most = 1 << 10, 1 << 18
	n := least
	for n < most && int64(n) < l.maxBytes/(4<<10) {
		n <<= 1
	}
	return n
}
