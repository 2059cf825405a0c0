package lock

import "sync"

// flight is what is known of a running flight while it runs: whom its work waits for.
type flight struct {
	mu    sync.Mutex
	waits map[*wait]struct{}
}

// wait is an edge from a flight to the flight of a key.
type wait struct {
	group interface{ flightOf(key string) *flight }
	key   string
}

type flightKey struct{}

// waitFor notes that me waits for the flight of key, or returns ErrCycle if that flight waits for me, however many
// flights lie between. The note is made before the search, so of two flights that close a circle at the same moment
// at least one sees it.
func (me *flight) waitFor(group interface{ flightOf(key string) *flight }, key string) (leave func(), err error) {
	w := &wait{group, key}
	me.mu.Lock()
	if me.waits == nil {
		me.waits = make(map[*wait]struct{})
	}
	me.waits[w] = struct{}{}
	me.mu.Unlock()
	leave = func() {
		me.mu.Lock()
		delete(me.waits, w)
		me.mu.Unlock()
	}
	if group.flightOf(key).reaches(me, make(map[*flight]bool)) {
		leave()
		return nil, ErrCycle
	}
	return leave, nil
}

// reaches reports whether f is target, or waits for it through others.
func (f *flight) reaches(target *flight, seen map[*flight]bool) bool {
	if f == nil || seen[f] {
		return false
	}
	if f == target {
		return true
	}
	seen[f] = true
	f.mu.Lock()
	next := make([]*wait, 0, len(f.waits))
	for w := range f.waits {
		next = append(next, w)
	}
	f.mu.Unlock()
	for _, w := range next {
		if w.group.flightOf(w.key).reaches(target, seen) {
			return true
		}
	}
	return false
}

func (f *Flights[T]) flightOf(key string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[key]
}
