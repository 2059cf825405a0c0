package protection

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
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
	return &chain{policies: slices.DeleteFunc(slices.Clone(policies), func(p Policy) bool { return p == nil })}
}

type chain struct {
	policies []Policy
	free     sync.Pool // of *held
}

// held is the permits of one admission through a chain. It is used again after its Done, and the lap tells the permits of
// one use from those of another.
type held struct {
	chain   *chain
	lap     atomic.Uint64
	permits []Permit      // as many as were acquired
	least   time.Duration // of their limits; 0 if none has one
}

// Acquire takes a permit of every policy, or of none.
func (c *chain) Acquire(ctx context.Context) (Permit, error) {
	if err := c.look(ctx); err != nil {
		return Permit{}, err
	}
	h, _ := c.free.Get().(*held)
	if h == nil {
		h = &held{chain: c, permits: make([]Permit, 0, len(c.policies))}
	}
	all := Permit{owner: h, grant: grant{mark: h.lap.Load()}}
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
		if limit := permit.Limit(); limit > 0 && (h.least == 0 || limit < h.least) {
			h.least = limit
		}
		h.permits = append(h.permits, permit)
	}
	admitted = true
	return all, nil
}

// end ends the permits, the innermost first.
func (h *held) end(g grant, o Outcome) {
	if !h.lap.CompareAndSwap(g.mark, g.mark+1) {
		return // a copy of a permit that was ended: these are another's permits by now
	}
	for i := range slices.Backward(h.permits) {
		h.permits[i].Done(o)
	}
	h.permits, h.least = h.permits[:0], 0
	h.chain.free.Put(h)
}

// limit is the least of the permits' limits.
func (h *held) limit(g grant) time.Duration {
	if h.lap.Load() != g.mark {
		return 0
	}
	return h.least
}

// verdict is that of the innermost policy that has one.
func (h *held) verdict(ctx context.Context, g grant, limit time.Duration, err error) Outcome {
	if h.lap.Load() == g.mark {
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
	for _, p := range c.policies {
		if err := look(ctx, p); err != nil {
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

// look is ready, but p takes note of a refusal.
func look(ctx context.Context, p Policy) error {
	if l, ok := p.(interface{ look(context.Context) error }); ok {
		return l.look(ctx)
	}
	return ready(p)
}

func recoveries(p Policy) uint64 {
	if r, ok := p.(interface{ Recoveries() uint64 }); ok {
		return r.Recoveries()
	}
	return 0
}
