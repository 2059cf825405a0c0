package protection

import (
	"context"
	"errors"
	"fmt"

	"github.com/snowshed-go/snowshed/internal/contain"
)

// Stage is one way for a [Fallback] to find an answer when the call itself has none.
type Stage[T any] struct {
	Name     string                                            // what [Answer].By says; required
	Find     func(ctx context.Context, cause error) (T, error) // finds the answer; cause is why the call has none; required
	Bulkhead *BulkheadOptions                                  // of this stage alone; nil for none; its Name defaults to "fallback/stage"
}

// ErrNoAnswer is what a [Stage] returns that has none, such as a stale value that was never stored.
var ErrNoAnswer = errors.New("no answer")

// StaleValue is a stage "stale": an older value out of some store, if there is one. A lookup in memory needs no bulkhead.
func StaleValue[T any](get func(context.Context) (T, bool)) Stage[T] {
	return Stage[T]{Name: "stale", Find: func(ctx context.Context, _ error) (T, error) {
		if v, ok := get(ctx); ok {
			return v, nil
		}
		var zero T
		return zero, ErrNoAnswer
	}}
}

// StaticValue is a stage "static": always v, which all who get it share.
func StaticValue[T any](v T) Stage[T] {
	return Stage[T]{Name: "static", Find: func(context.Context, error) (T, error) { return v, nil }}
}

// OtherLoader is a stage "loader": another source. It has a bulkhead of maxConcurrent slots without a queue, so that the
// load that the first source no longer takes does not bring down the second.
func OtherLoader[T any](load func(context.Context) (T, error), maxConcurrent int) Stage[T] {
	return Stage[T]{
		Name: "loader", Bulkhead: &BulkheadOptions{MaxConcurrent: maxConcurrent},
		Find: func(ctx context.Context, _ error) (T, error) { return load(ctx) },
	}
}

// FallbackOptions describes a [Fallback].
type FallbackOptions[T any] struct {
	Name   string     // a label for errors
	Stages []Stage[T] // tried in turn; at least one

	// When says which errors of the call are answered by the stages; default: all
	// but context.Canceled.
	When func(error) bool
}

// Fallback answers with less when a call fails: with a stale value, a static one, one of another source. The answer says
// so. Safe for concurrent use.
type Fallback[T any] struct {
	name   string
	when   func(error) bool
	stages []stage[T]
}

type stage[T any] struct {
	Stage[T]
	policy Policy
}

// Answer is a value and where it comes from.
type Answer[T any] struct {
	Value T
	By    string // the stage that found it; empty: the call itself
	Cause error  // why the call did not; nil if it did
}

// Degraded reports whether the answer is less than what was asked for.
func (a Answer[T]) Degraded() bool { return a.By != "" }

// NewFallback returns a fallback, or an error that names the option that cannot be.
func NewFallback[T any](o FallbackOptions[T]) (*Fallback[T], error) {
	if len(o.Stages) == 0 {
		return nil, errors.New("protection: FallbackOptions.Stages is empty: it must have at least one")
	}
	f := &Fallback[T]{name: o.Name, when: o.When}
	if f.when == nil {
		f.when = func(err error) bool { return !errors.Is(err, context.Canceled) }
	}
	for i, s := range o.Stages {
		if s.Name == "" || s.Find == nil {
			return nil, fmt.Errorf("protection: FallbackOptions.Stages[%d] is %q: it must have a Name and a Find", i, s.Name)
		}
		st := stage[T]{Stage: s}
		if s.Bulkhead != nil {
			opt := *s.Bulkhead
			if opt.Name == "" {
				opt.Name = o.Name + "/" + s.Name
			}
			b, err := NewBulkhead(opt)
			if err != nil {
				return nil, fmt.Errorf("protection: FallbackOptions.Stages[%d]: %w", i, err)
			}
			st.policy = b
		}
		f.stages = append(f.stages, st)
	}
	return f, nil
}

// Do is [DoValue] of p and fn with something to fall back on: when that fails, the first stage that finds an answer gives
// it. When ctx has ended nobody waits for an answer and Do returns the call's error, so give fn an execution timeout that
// leaves time for the stages. When no stage has an answer it returns a [*FallbackError]. A panic in a stage is that
// stage's error; one in fn goes on.
func (f *Fallback[T]) Do(ctx context.Context, p Policy, fn func(context.Context) (T, error)) (Answer[T], error) {
	v, err := DoValue(ctx, p, fn)
	if err == nil {
		return Answer[T]{Value: v}, nil
	}
	if ctx.Err() != nil || !f.when(err) {
		return Answer[T]{}, err
	}
	failed := &FallbackError{Name: f.name, Cause: err}
	for _, s := range f.stages {
		v, stageErr := DoValue(ctx, s.policy, func(ctx context.Context) (T, error) {
			return contain.Call(func() (T, error) { return s.Find(ctx, err) })
		})
		if stageErr == nil {
			return Answer[T]{Value: v, By: s.Name, Cause: err}, nil
		}
		failed.Stages = append(failed.Stages, fmt.Errorf("%s: %w", s.Name, stageErr))
	}
	return Answer[T]{}, failed
}

// FallbackError is the error of a call that failed, and for which no stage had an answer.
type FallbackError struct {
	Name   string  // the name given to the fallback
	Cause  error   // the error of the call
	Stages []error // those of the stages, in their order
}

// Error names the cause and what came of the stages.
func (e *FallbackError) Error() string {
	return fmt.Sprintf("protection: fallback %q has no answer (%v) to: %v", e.Name, errors.Join(e.Stages...), e.Cause)
}

// Unwrap returns the cause alone: that a stage was refused must not look as if the work had not started.
func (e *FallbackError) Unwrap() error { return e.Cause }
