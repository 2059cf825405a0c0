package protection

import "context"

// Do runs fn if p admits it, and tells p how it ended: see [Permit.Outcome]. It returns p's refusal, which means that fn
// has not started, or fn's error. If the permit has a limit, fn's ctx ends with it, with the cause [ErrExecutionTimeout];
// Do itself returns when fn does. A panic or a runtime.Goexit in fn counts as a failure, gives the permit back and goes
// on. A nil policy admits everything.
func Do(ctx context.Context, p Policy, fn func(context.Context) error) error {
	_, err := DoValue(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// DoValue is [Do] for a function that returns a value, which is passed on as it is, beside an error too.
func DoValue[T any](ctx context.Context, p Policy, fn func(context.Context) (T, error)) (T, error) {
	if p == nil {
		return fn(ctx)
	}
	permit, err := p.Acquire(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	outcome := Failure // stands if fn does not return
	defer func() { permit.Done(outcome) }()
	if o, ok := p.(*once); ok && !Admitted(ctx, o) {
		var end func()
		ctx, end = WithPermit(ctx, o)
		defer end()
	}
	limit := permit.Limit()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrExecutionTimeout)
		defer cancel()
	}
	v, err := fn(ctx)
	if err == nil && limit == 0 {
		outcome = Success
	} else {
		outcome = permit.Outcome(ctx, err)
	}
	return v, err
}
