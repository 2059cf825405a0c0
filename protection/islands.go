package protection

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoIsland is the reason of a refusal: the class of a call is none that its [Islands] know.
var ErrNoIsland = errors.New("no island for this class of calls")

// maxIslands bounds Islands: classes are a handful that somebody chose, never a value out of a request.
const maxIslands = 256

// IslandOptions describes one island: a class of calls with resources of its own.
type IslandOptions struct {
	Class string // what calls of this island are marked with; required

	Bulkhead BulkheadOptions // of this island alone; its Name defaults to "islands/class"
	Breaker  BreakerOptions  // of this island alone; its Name defaults to "islands/class"
	Inner    Policy          // asked in between, such as a limiter or an execution timeout; nil for none
}

// IslandsOptions describes [Islands].
type IslandsOptions struct {
	Name    string          // a label for errors and alarms
	Islands []IslandOptions // at least one, at most 256
	Default string          // the class of calls that bear no mark or one that is unknown; empty: these are refused with ErrNoIsland
}

// Islands is a policy that isolates classes of calls from each other, such as tables, tenants, or what is core and what is
// not: each class has a bulkhead and a breaker of its own, so that a class that burns or hangs takes slots from itself
// alone and trips its own breaker alone. The sum of the islands' slots is what the dependency behind must bear. The set of
// islands is fixed, hence bounded. Safe for concurrent use.
type Islands struct {
	name    string
	byClass map[string]*island
	order   []*island
	other   *island // the default; nil for none
}

type island struct {
	bulkhead *Bulkhead
	breaker  *Breaker
	policy   Policy
}

// NewIslands returns islands on which nothing runs, or an error that names the option that cannot be.
func NewIslands(o IslandsOptions) (*Islands, error) {
	if len(o.Islands) == 0 || len(o.Islands) > maxIslands {
		return nil, fmt.Errorf("protection: IslandsOptions.Islands has %d islands: it must have at least 1 and at most %d", len(o.Islands), maxIslands)
	}
	s := &Islands{name: o.Name, byClass: make(map[string]*island, len(o.Islands))}
	for i, opt := range o.Islands {
		if opt.Class == "" || s.byClass[opt.Class] != nil {
			return nil, fmt.Errorf("protection: IslandsOptions.Islands[%d].Class is %q: it must be given, and only once", i, opt.Class)
		}
		l, err := newIsland(o.Name, opt)
		if err != nil {
			return nil, fmt.Errorf("protection: IslandsOptions.Islands[%d]: %w", i, err)
		}
		s.byClass[opt.Class] = l
		s.order = append(s.order, l)
	}
	if o.Default != "" {
		if s.other = s.byClass[o.Default]; s.other == nil {
			return nil, fmt.Errorf("protection: IslandsOptions.Default is %q: it must be the class of an island", o.Default)
		}
	}
	return s, nil
}

func newIsland(name string, o IslandOptions) (*island, error) {
	label := o.Class
	if name != "" {
		label = name + "/" + o.Class
	}
	if o.Bulkhead.Name == "" {
		o.Bulkhead.Name = label
	}
	if o.Breaker.Name == "" {
		o.Breaker.Name = label
	}
	bulkhead, err := NewBulkhead(o.Bulkhead)
	if err != nil {
		return nil, err
	}
	breaker, err := NewBreaker(o.Breaker)
	if err != nil {
		return nil, err
	}
	return &island{bulkhead, breaker, Chain(bulkhead, o.Inner, breaker)}, nil
}

// classKey is the key of the class in a ctx.
type classKey struct{}

// WithClass returns a ctx that marks the calls under it as of a class, for [Islands].
func WithClass(ctx context.Context, class string) context.Context {
	return context.WithValue(ctx, classKey{}, class)
}

// Class returns the class that ctx is marked with, "" for none.
func Class(ctx context.Context) string {
	if class, ok := ctx.Value(classKey{}).(string); ok {
		return class
	}
	return ""
}

// Acquire takes a permit of the island of ctx's class: see [WithClass].
func (s *Islands) Acquire(ctx context.Context) (Permit, error) {
	l, err := s.find(Class(ctx))
	if err != nil {
		return Permit{}, err
	}
	return l.policy.Acquire(ctx)
}

// look lets a chain around the islands see that the one of ctx's class would refuse, before anybody queues.
func (s *Islands) look(ctx context.Context) error {
	l, err := s.find(Class(ctx))
	if err != nil {
		return err
	}
	return look(ctx, l.policy)
}

// Isolate returns the policy of one class, for callers that know theirs without a ctx, or an error when there is no such
// class and no default.
func (s *Islands) Isolate(class string) (Policy, error) {
	l, err := s.find(class)
	if err != nil {
		return nil, err
	}
	return l.policy, nil
}

func (s *Islands) find(class string) (*island, error) {
	if l := s.byClass[class]; l != nil {
		return l, nil
	}
	if s.other != nil {
		return s.other, nil
	}
	return nil, &RejectedError{Name: s.name, Policy: "islands", Reason: ErrNoIsland}
}

// Recoveries returns how many times the islands' breakers have closed again.
func (s *Islands) Recoveries() (n uint64) {
	for _, l := range s.order {
		n += l.breaker.Recoveries()
	}
	return n
}

// Parts returns the bulkhead and the breaker of a class, for looking at; nil when there is no such class. The default does not stand in.
func (s *Islands) Parts(class string) (*Bulkhead, *Breaker) {
	l := s.byClass[class]
	if l == nil {
		return nil, nil
	}
	return l.bulkhead, l.breaker
}
