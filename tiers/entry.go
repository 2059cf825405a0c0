package tiers

import (
	"sync/atomic"
	"time"
)

// Entry is a value as the local tier keeps it. Times are readings of the tier's clock ([Local.Now]). Its maker fills the
// exported fields and hands it to [LocalView.Put]; from then on it is shared by all readers and never changes.
type Entry[K comparable, V any] struct {
	// The first fields are all that a hot hit looks at.
	Key        K
	freshUntil int64 // before it, the entry may be served without another question
	era        uint64
	epoch      uint32
	NotFound   bool // the source does not have the key
	Value      V

	Start      int64         // when the load that made the value began; the greater of two is the newer value
	EarlyFrom  int64         // from here an early refresh is worth a thought
	Expires    int64         // end of its TTL
	CheckBy    int64         // end of this copy's own life: then the tier behind is asked, even before Expires
	StaleUntil int64         // end of stale-while-revalidate
	ErrorUntil int64         // end of stale-if-error, and of any use
	LoadTime   time.Duration // how long its load took

	Generation uint64
	Number     uint64

	cost  int64
	hash  uint64
	loose atomic.Bool // kept by the hot table alone, and counted there
	view  *LocalView[K, V]
}

// held is an entry of any type, as the capacity store keeps them side by side.
type held interface {
	evicted()
	rejected()
	supersedes(old held) bool
}

// evicted is called when the capacity store gave the entry up for others: the hot table lets it go too, or the memory
// budget would not hold.
func (e *Entry[K, V]) evicted() { e.view.drop(e) }

// rejected is called when the capacity store would not take the entry. It was loaded a moment ago and is about to be
// read, so the hot table keeps it, within a small budget of its own.
func (e *Entry[K, V]) rejected() { e.view.loosen(e) }

// supersedes decides whether e takes old's place: not if old is a newer value of the same key.
func (e *Entry[K, V]) supersedes(old held) bool {
	o, same := old.(*Entry[K, V])
	if !same || o.view != e.view || o.Key != e.Key {
		return true // another key with the same hash
	}
	return o.Start <= e.Start || !e.view.current(o, o.hash)
}
