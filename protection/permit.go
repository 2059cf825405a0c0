package protection

import (
	"context"
	"time"
)

// Permit is the admission of one unit of work. It is a value that holds all its data, so that admission allocates nothing:
// it belongs to one goroutine at a time, and is not to be copied once it may have been ended. Hand it on by moving it, as
// into a field, and end it there. The zero Permit admits nothing and holds nothing.
//
// It is four words long: a longer one would travel through memory instead of registers.
type Permit struct {
	owner ender // nil once ended
	grant grant
}

// ender gives back what a permit holds. It is the policy itself, or what the policy keeps of one admission. It gets the
// grant by value, since a pointer to the permit would move every permit to the heap.
type ender interface {
	end(g grant, o Outcome)
	limit(g grant) time.Duration // how long the work may run; 0: for ever
}

// unlimited is a part of enders that do not bound how long the work may run.
type unlimited struct{}

func (unlimited) limit(grant) time.Duration { return 0 }

// judge is an ender that says what an error means.
type judge interface {
	// verdict returns what err, which is not nil, tells about a call that was admitted with g under the caller's ctx and
	// may run for limit (0: for ever).
	verdict(ctx context.Context, g grant, limit time.Duration, err error) Outcome
}

// grant is what a policy notes about one admission. Its meaning is the owner's.
type grant struct {
	start int64  // when it was admitted, on the owner's timeline
	mark  uint64 // of the owner's choice
}

// NewPermit returns the permit of a policy of one's own. done is called once, with one of the four outcomes; nil if the
// permit holds nothing.
func NewPermit(done func(Outcome)) Permit {
	if done == nil {
		return Permit{owner: nothing{}}
	}
	return Permit{owner: doneFunc(done)}
}

// Done says how the work ended and gives back what the permit holds. The first call counts and returns true; later ones,
// and any on the zero Permit, do nothing and return false. An outcome that is none of the four counts as [Ignored]. It
// never blocks.
func (p *Permit) Done(o Outcome) bool {
	owner := p.owner
	if owner == nil {
		return false
	}
	p.owner = nil
	if o < Success || o > Ignored {
		o = Ignored
	}
	owner.end(p.grant, o)
	return true
}

// Limit returns how long the work may run: the execution timeout, or for the trial call of an open breaker its own
// deadline; 0 for no limit. [Do] applies it; who uses a policy in two steps should, with a ctx of that timeout and the
// cause [ErrExecutionTimeout].
func (p *Permit) Limit() time.Duration {
	if p.owner == nil {
		return 0
	}
	return p.owner.limit(p.grant)
}

// Outcome returns what err means for the policies that gave the permit, as [Do] finds it: nil is [Success], anything else
// is for their [Classifier] to say. ctx is that of the work. If its cause is [ErrExecutionTimeout] the answer is
// [Timeout] whatever came back. A deadline of the caller's own is a Timeout only if it left the work at least 100 ms, or
// the Limit if that is shorter, and otherwise [Ignored]: it says more about the caller. Call it before Done.
func (p *Permit) Outcome(ctx context.Context, err error) Outcome {
	limit := p.Limit()
	if limit > 0 && context.Cause(ctx) == ErrExecutionTimeout { //nolint:errorlint // the very value that Do has set
		return Timeout
	}
	if err == nil {
		return Success
	}
	if j, ok := p.owner.(judge); ok {
		return j.verdict(ctx, p.grant, limit, err)
	}
	return Classify(err)
}

// nothing owns permits that hold nothing, such as a token that is spent when it is taken.
type nothing struct{ unlimited }

func (nothing) end(grant, Outcome) {}

// limitedPermit returns a permit that holds nothing and bounds how long the work may run.
func limitedPermit(d time.Duration) Permit {
	return Permit{owner: limited{}, grant: grant{mark: uint64(d)}} //nolint:gosec // not negative
}

type limited struct{}

func (limited) end(grant, Outcome) {}

func (limited) limit(g grant) time.Duration { return time.Duration(g.mark) } //nolint:gosec // as it was made

type doneFunc func(Outcome)

func (f doneFunc) end(_ grant, o Outcome) { f(o) }

func (doneFunc) limit(grant) time.Duration { return 0 }
