package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/loader"
)

var (
	// ErrNotFound says that the source does not have the key. It also answers errors.Is(err, sql.ErrNoRows).
	ErrNotFound = loader.ErrNotFound
	// ErrClosed says that the cache was closed.
	ErrClosed = errors.New("cache: closed")
	// ErrNotCached says that a Lookup with NoLoad found nothing in any tier. Whether the source has the key is not known.
	ErrNotCached = errors.New("cache: not cached")
	// ErrCycle says that a loader asked the cache for a key whose load waits for that loader.
	ErrCycle = errors.New("cache: a load waits for itself")
	// ErrLoadTimeout says that a load did not end within LoadTimeout. It also answers errors.Is(err, context.DeadlineExceeded).
	ErrLoadTimeout error = loadTimeoutError{}
)

type loadTimeoutError struct{}

func (loadTimeoutError) Error() string        { return "cache: the load did not end within LoadTimeout" }
func (loadTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// BackoffError says that a load of the key failed a short while ago and that the key rests until RetryAfter has passed.
// It wraps the failure. It is immutable and safe to share.
type BackoffError struct {
	RetryAfter time.Duration // from the moment of the answer
	Err        error         // the failure of the load
}

// Error says how long the key rests.
func (e *BackoffError) Error() string {
	return fmt.Sprintf("cache: the last load failed, next try in %v: %v", e.RetryAfter, e.Err)
}

// Unwrap returns the failure of the load.
func (e *BackoffError) Unwrap() error { return e.Err }
