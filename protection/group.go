package protection

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// GroupOptions says how a [Group] makes its breakers.
type GroupOptions[K comparable] struct {
	Breaker BreakerOptions // of every member
	MaxKeys int            // how many breakers there may be; default 1,000

	// Label returns the name of a key's breaker in errors and events; default Breaker.Name for all. Mind that a key may say
	// more than a log should hold.
	Label func(K) string
}

const defaultMaxKeys = 1000

// Group keeps a breaker for each key, such as a host, a tenant or a table, within a bound. When it is full, a new key takes
// the place of one whose breaker is closed, has no call in flight and has had nothing to count for a Window, and which
// nobody has asked for in that time; an open breaker never goes. A key for which there is no place gets a breaker that all
// such keys share and that refuses nothing, lest one key pay for another: it is in shadow mode. Safe for concurrent use.
type Group[K comparable] struct {
	opt      GroupOptions[K]
	time     timeline
	idle     int64
	overflow *Breaker

	mu      sync.RWMutex
	members map[K]*member
}

type member struct {
	breaker *Breaker
	used    atomic.Int64 // when it was last asked for; up to a tenth of the Window ago
}

// NewGroup returns an empty group, or an error that names the option that cannot be.
func NewGroup[K comparable](o GroupOptions[K]) (*Group[K], error) {
	if o.MaxKeys < 0 {
		return nil, fmt.Errorf("protection: GroupOptions.MaxKeys is %d: it must not be negative", o.MaxKeys)
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = defaultMaxKeys
	}
	shared := o.Breaker
	shared.Shadow = true
	overflow, err := NewBreaker(shared)
	if err != nil {
		return nil, err
	}
	return &Group[K]{
		opt: o, time: newTimeline(o.Breaker.Clock), idle: int64(overflow.rules.Load().Window),
		overflow: overflow, members: make(map[K]*member),
	}, nil
}

// Get returns the key's breaker. Use it at once and ask again for the next call: one that is kept may no longer be the
// key's.
func (g *Group[K]) Get(key K) *Breaker {
	now := g.time.now()
	g.mu.RLock()
	m := g.members[key]
	g.mu.RUnlock()
	if m == nil {
		if m = g.add(key, now); m == nil {
			return g.overflow
		}
	}
	if now-m.used.Load() > g.idle/buckets { // seldom written, so that it stays in the caches of all threads
		m.used.Store(now)
	}
	return m.breaker
}

// add makes the key's breaker, unless there is no place.
func (g *Group[K]) add(key K, now int64) *member {
	if key != key { //nolint:gocritic // a NaN: no map ever finds it again
		return nil
	}
	name := g.opt.Breaker.Name
	if g.opt.Label != nil {
		name = g.opt.Label(key) // before the lock, since it is the user's
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[key]; m != nil {
		return m
	}
	if len(g.members) >= g.opt.MaxKeys && !g.evict(now) {
		return nil
	}
	o := g.opt.Breaker
	o.Name = name
	b, err := newBreaker(o, 1, true)
	if err != nil {
		return nil // cannot be: the options were good for the group
	}
	m := &member{breaker: b}
	m.used.Store(now)
	g.members[key] = m
	return m
}

// tries bounds how many members a key without a place looks at: a flood of keys must not cost more than it is worth.
const tries = 32

// evict makes a place if it finds a member that may go among some that it picks at random.
func (g *Group[K]) evict(now int64) bool {
	n := 0
	for key, m := range g.members {
		if now-m.used.Load() > g.idle+g.idle/buckets && m.breaker.clean(now) {
			delete(g.members, key)
			return true
		}
		if n++; n >= tries {
			break
		}
	}
	return false
}

// clean reports whether the breaker, which is a member, is closed by itself, has nothing in its window, and nothing in
// flight that will count.
func (b *Breaker) clean(now int64) bool {
	g := b.current.Load()
	return g.state == Closed && now >= g.held && g.flights.Load().out() == 0 && g.ring.Load().sum(b.time.now()) == counts{}
}

// Len returns how many keys have a breaker of their own.
func (g *Group[K]) Len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.members)
}

// Snapshots calls yield with the state of each key's breaker until it returns false. It holds no lock meanwhile.
func (g *Group[K]) Snapshots(yield func(K, BreakerSnapshot) bool) {
	g.mu.RLock()
	breakers := make(map[K]*Breaker, len(g.members))
	for key, m := range g.members {
		breakers[key] = m.breaker
	}
	g.mu.RUnlock()
	for key, b := range breakers {
		if !yield(key, b.Snapshot()) {
			return
		}
	}
}
