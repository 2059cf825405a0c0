package loader

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/snowshed-go/snowshed/internal/contain"
)

// Func loads the value of one key. It must honour ctx, which ends at the cache's load timeout and not with any one
// caller, and must be safe for concurrent use. It returns [ErrNotFound] (wrapped or not) or a bare sql.ErrNoRows for a
// key that the source does not have; any other error, a wrapped sql.ErrNoRows included, is a failure. The returned
// value belongs to the cache.
type Func[K comparable, V any] func(ctx context.Context, key K) (V, error)

// BatchFunc loads the values of several keys at once. Keys that the source does not have are absent from the map,
// which means not found if the error is nil and says nothing otherwise. The rest is as for [Func].
type BatchFunc[K comparable, V any] func(ctx context.Context, keys []K) (map[K]V, error)

// Middleware wraps a Func in another, to trace, to protect or to change what it does.
type Middleware[K comparable, V any] func(next Func[K, V]) Func[K, V]

// Wrap returns load inside the given middleware, the first one outermost.
func Wrap[K comparable, V any](load Func[K, V], mw ...Middleware[K, V]) Func[K, V] {
	for _, wrap := range slices.Backward(mw) {
		load = wrap(load)
	}
	return load
}

// PanicError is the error of a load whose loader panicked or called runtime.Goexit. It carries the value and the stack.
type PanicError = contain.PanicError

// ErrNotFound says that the source does not have the key. It also answers errors.Is(err, sql.ErrNoRows).
var ErrNotFound error = notFoundError{}

type notFoundError struct{}

func (notFoundError) Error() string        { return "snowshed: not found" }
func (notFoundError) Is(target error) bool { return target == sql.ErrNoRows }

// IsNotFound reports whether a loader's error means that the key does not exist: [ErrNotFound] anywhere in the chain,
// or sql.ErrNoRows itself. A wrapped sql.ErrNoRows comes from a query of the loader's own and is a failure, and so is a
// panic, whatever error it was raised with.
func IsNotFound(err error) bool {
	if err == sql.ErrNoRows { //nolint:errorlint // only the bare error counts
		return true
	}
	if !errors.Is(err, ErrNotFound) {
		return false
	}
	_, panicked := errors.AsType[*PanicError](err)
	return !panicked
}
