package protection

import (
	"context"
	"errors"
)

// Classifier says what an error tells about the dependency that it came from. It is not asked about nil. It must be safe
// for concurrent use.
type Classifier func(error) Outcome

// Classify is the default [Classifier]: nil is [Success]; context.Canceled and refusals of any policy are [Ignored];
// context.DeadlineExceeded, and what says so by a method Timeout() bool as errors of the net package do, is [Timeout]; any
// other error is [Failure].
func Classify(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, context.Canceled), errors.Is(err, ErrRejected):
		return Ignored
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	if t := (interface{ Timeout() bool })(nil); errors.As(err, &t) && t.Timeout() {
		return Timeout
	}
	return Failure
}
