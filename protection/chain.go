package protection

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Chain returns a policy that admits what all the given ones admit. They are acquired in order, the first one outermost;
// when one refuses, those before it are done with [Ignored] and its error is returned. Done goes to all in reverse. The
// shortest limit of their permits is that of the chain's, and the innermost breaker's [Classifier] is the chain's.
//
// Policies with a method Ready() error, such as [*Breaker], are looked at before anything is acquired, so that nobody
// queues for what would be refused in the end. List a breaker last: then nothing after it can waste its trial call.
// Nil policies are left out, and an empty chain admits everything. Admission allocates nothing. Safe for concurrent use.
func Chain(policies ...Policy) Policy {
	c := &chain{policies: slices.DeleteFunc(slices.Clone(policies), func(p Policy) bool { return p == nil })}
	for _, p := range c.policies {
		if l := lookerOf(p); l != nil {
			c.lookers = append(c.lookers, l)
		}
	}
	return c
}

type chain struct {
	policies []Policy
	lookers  []looker  // those of the policies that can look ahead
	free     sync.Pool // of *held
}

// held is the permits of one admission through a chain. It is used again after its Done, and the lap tells the permits of
// one use from those of another.
type held struct {
	chain   *chain
	lap     uint64
	permits []Permit // as many as were acquired
}

// Acquire takes a permit of every policy, or of none.
func (c *chain) Acquire(ctx context.Context) (Permit, error) {
	if err := c.look(ctx); err != nil {
		return Permit{}, err
	}
	h, ok := c.free.Get().(*held)
	if !ok {
		h = &held{chain: c, permits: make([]Permit, 0, len(c.policies))}
	}
	all := Permit{owner: h, grant: grant{mark: h.lap}}
	admitted := false
	defer func() { // also when a policy of the caller's own panics
		if !admitted {
			all.Done(Ignored)
		}
	}()
	for _, p := range c.policies {
		permit, err := p.Acquire(ctx)
		if err != nil {
			return Permit{}, err
		}
		h.permits = append(h.permits, permit)
	}
	admitted = true
	return all, nil
}

// end ends the permits, the innermost first.
func (h *held) end(g grant, o Outcome) {
	if h.lap != g.mark {
		return // a copy of a permit that was ended: these are another's permits by now
	}
	h.lap++
	for i := range slices.Backward(h.permits) {
		h.permits[i].Done(o)
	}
	h.permits = h.permits[:0]
	h.chain.free.Put(h)
}

// limit is the least of the permits' limits.
func (h *held) limit(g grant) (least time.Duration) {
	if h.lap != g.mark {
		return 0
	}
	for i := range h.permits {
		if limit := h.permits[i].Limit(); limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// verdict is that of the innermost policy that has one.
func (h *held) verdict(ctx context.Context, g grant, limit time.Duration, err error) Outcome {
	if h.lap == g.mark {
		for i := range slices.Backward(h.permits) {
			if j, ok := h.permits[i].owner.(judge); ok {
				return j.verdict(ctx, h.permits[i].grant, limit, err)
			}
		}
	}
	return Classify(err)
}

// Ready returns the first refusal that a policy foresees. It makes a chain within a chain look ahead too.
func (c *chain) Ready() error {
	for _, p := range c.policies {
		if err := ready(p); err != nil {
			return err
		}
	}
	return nil
}

// look is Ready for a call that ends with the refusal, so that policies can count it.
func (c *chain) look(ctx context.Context) error {
	for _, l := range c.lookers {
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Recoveries returns how many times the breakers of the chain have closed again.
func (c *chain) Recoveries() (n uint64) {
	for _, p := range c.policies {
		n += recoveries(p)
	}
	return n
}

// ready returns the refusal that p foresees, nil if it cannot tell.
func ready(p Policy) error {
	if r, ok := p.(interface{ Ready() error }); ok {
		return r.Ready()
	}
	return nil
}

// looker is a policy that can tell that it would refuse, and takes note that the call ends there if it does.
type looker interface {
	look(ctx context.Context) error
}

// lookerOf returns how p looks ahead, nil if it cannot.
func lookerOf(p Policy) looker {
	switch p := p.(type) {
	case looker:
		return p
	case interface{ Ready() error }:
		return readyLooker{p}
	default:
		return nil
	}
}

// readyLooker is for policies of others.
type readyLooker struct{ policy interface{ Ready() error } }

func (r readyLooker) look(context.Context) error { return r.policy.Ready() }

// look is ready, but p takes note of a refusal.
func look(ctx context.Context, p Policy) error {
	if l := lookerOf(p); l != nil {
		return l.look(ctx)
	}
	return nil
}

func recoveries(p Policy) uint64 {
	if r, ok := p.(interface{ Recoveries() uint64 }); ok {
		return r.Recoveries()
	}
	return 0
}
