package protection

import (
	"context"
	"reflect"
	"sync/atomic"
)

// admissionKey is the key of the innermost *admission in a ctx.
type admissionKey struct{}

// admission is a permit on its way through a ctx.
type admission struct {
	policy Policy
	ended  atomic.Bool
	outer  *admission // of other policies
}

// innermost returns nil if there is none.
func innermost(ctx context.Context) *admission {
	a, ok := ctx.Value(admissionKey{}).(*admission)
	if !ok {
		return nil
	}
	return a
}

// WithPermit returns a ctx that says that p has admitted the work under it, so that an inner gate of the same p, which
// asks [Admitted], charges nothing again. Call end with the permit's Done: a ctx that outlives its permit admits nobody.
// [Once] does all of it.
func WithPermit(ctx context.Context, p Policy) (_ context.Context, end func()) {
	a := &admission{policy: p, outer: innermost(ctx)}
	return context.WithValue(ctx, admissionKey{}, a), func() { a.ended.Store(true) }
}

// Admitted reports whether the work under ctx holds a permit of p, as [WithPermit] has noted it. A policy whose type
// cannot be compared is never found.
func Admitted(ctx context.Context, p Policy) bool {
	a := innermost(ctx)
	if a == nil || !reflect.ValueOf(p).Comparable() {
		return false
	}
	for ; a != nil; a = a.outer {
		if reflect.TypeOf(a.policy) == reflect.TypeOf(p) && a.policy == p && !a.ended.Load() {
			return true
		}
	}
	return false
}

// Once returns a policy that asks p once for all the work under a ctx: [Do] and [DoValue] note the permit in the ctx that
// they give to the function, and Acquire under such a ctx admits without asking p. Two gates in a row, such as a guarded
// loader on a guarded connection pool, are one admission then, and cannot wait for each other. The note costs the outer
// gate an allocation or two. Work that is admitted in two steps notes its permit with [WithPermit]. A nil p stays nil.
func Once(p Policy) Policy {
	if p == nil {
		return nil
	}
	return &once{p}
}

type once struct{ policy Policy }

// Acquire asks the policy unless the work under ctx has its permit.
func (o *once) Acquire(ctx context.Context) (Permit, error) {
	if Admitted(ctx, o) {
		if err := ctx.Err(); err != nil {
			return Permit{}, err
		}
		return Permit{owner: nothing{}}, nil
	}
	return o.policy.Acquire(ctx)
}

// Ready looks ahead as the policy does.
func (o *once) Ready() error { return ready(o.policy) }

// look passes work that has its permit.
func (o *once) look(ctx context.Context) error {
	if Admitted(ctx, o) {
		return nil
	}
	return look(ctx, o.policy)
}

// Recoveries is that of the policy.
func (o *once) Recoveries() uint64 { return recoveries(o.policy) }
