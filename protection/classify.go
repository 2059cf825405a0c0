package protection

import (
	"context"
	"errors"
)

// Classifier says what an error tells about the dependency that it came from. It must be safe for concurrent use.
type Classifier func(error) Outcome

// Classify is the default [Classifier]: nil is [Success]; context.Canceled and refusals of any policy are [Ignored];
// context.DeadlineExceeded is [Timeout]; any other error is [Failure].
func Classify(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, context.Canceled), errors.Is(err, ErrRejected):
		return Ignored
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	default:
		return Failure
	}
}
