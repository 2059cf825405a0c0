package lock

import "sync"

// flight is a running piece of work, and whom it waits for meanwhile.
type flight struct {
	mu    sync.Mutex
	ended bool // then it keeps nobody waiting, whatever its work left behind
	waits map[*wait]struct{}
}

// wait is an edge from a flight to another.
type wait struct{ target *flight }

type flightKey struct{}

// waitFor notes that f, if it is a flight at all, waits for target, or returns ErrCycle if target waits for f, however
// many flights lie between. The note is made before the search, so of two flights that close a circle at the same
// moment at least one sees it.
func (f *flight) waitFor(target *flight) (leave func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	w := &wait{target}
	f.mu.Lock()
	if f.waits == nil {
		f.waits = make(map[*wait]struct{})
	}
	f.waits[w] = struct{}{}
	f.mu.Unlock()
	leave = func() {
		f.mu.Lock()
		delete(f.waits, w)
		f.mu.Unlock()
	}
	if target.reaches(f, make(map[*flight]bool)) {
		leave()
		return nil, ErrCycle
	}
	return leave, nil
}

// reaches reports whether f is target, or waits for it through others.
func (f *flight) reaches(target *flight, seen map[*flight]bool) bool {
	if seen[f] {
		return false
	}
	seen[f] = true
	f.mu.Lock()
	ended := f.ended
	next := make([]*flight, 0, len(f.waits))
	for w := range f.waits {
		next = append(next, w.target)
	}
	f.mu.Unlock()
	if ended {
		return false
	}
	if f == target {
		return true
	}
	for _, n := range next {
		if n.reaches(target, seen) {
			return true
		}
	}
	return false
}

func (f *flight) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
}
