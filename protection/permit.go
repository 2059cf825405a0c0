package protection

import "sync/atomic"

// Permit is the admission of one unit of work. It is a value: copies are the same admission. The zero Permit admits
// nothing and holds nothing. Safe for concurrent use.
type Permit struct {
	s *admission
}

// admission is what all copies of a permit share, so that one Done is one Done.
type admission struct {
	ended atomic.Bool
	done  func(Outcome)
}

func newPermit(done func(Outcome)) Permit { return Permit{&admission{done: done}} }

// Done says how the work ended and gives back what the permit holds. The first call on any copy counts and returns true;
// later calls, and any on the zero Permit, do nothing and return false. An outcome that is none of the four counts as
// [Ignored]. It never blocks.
func (p Permit) Done(o Outcome) bool {
	if p.s == nil || !p.s.ended.CompareAndSwap(false, true) {
		return false
	}
	p.s.done(o)
	return true
}
