package protection

import (
	"context"
	"slices"
)

// Chain returns a policy that admits what all the given ones admit. They are acquired in order, the first one outermost;
// when one refuses, those before it are done with [Ignored] and its error is returned. Done goes to all in reverse.
//
// Policies with a method Ready() error, such as [*Breaker], are looked at before anything is acquired, so that nobody
// queues for what would be refused in the end. List a breaker last: then nothing after it can waste its trial call.
// Nil policies are left out, and an empty chain admits everything. Safe for concurrent use.
func Chain(policies ...Policy) Policy {
	return chain(slices.DeleteFunc(slices.Clone(policies), func(p Policy) bool { return p == nil }))
}

type chain []Policy

// readier is a policy that can tell, without consuming anything, that it would refuse.
type readier interface{ Ready() error }

// Acquire takes a permit of every policy, or of none.
func (c chain) Acquire(ctx context.Context) (Permit, error) {
	if err := c.Ready(); err != nil {
		return Permit{}, err
	}
	permits := make(permits, 0, len(c))
	admitted := false
	defer func() { // also when a policy of the caller's own panics
		if !admitted {
			permits.done(Ignored)
		}
	}()
	for _, p := range c {
		permit, err := p.Acquire(ctx)
		if err != nil {
			return Permit{}, err
		}
		permits = append(permits, permit)
	}
	admitted = true
	return newPermit(permits.done), nil
}

// Ready returns the first refusal that a policy foresees. It makes a chain within a chain look ahead too.
func (c chain) Ready() error {
	for _, p := range c {
		if r, ok := p.(readier); ok {
			if err := r.Ready(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Recoveries returns how often the breakers of the chain have closed again.
func (c chain) Recoveries() uint64 {
	var n uint64
	for _, p := range c {
		if r, ok := p.(interface{ Recoveries() uint64 }); ok {
			n += r.Recoveries()
		}
	}
	return n
}

type permits []Permit

func (ps permits) done(o Outcome) {
	for _, p := range slices.Backward(ps) {
		p.Done(o)
	}
}
