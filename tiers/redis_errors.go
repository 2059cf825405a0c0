package tiers

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The errors of the Redis tier. None of them, nor any that wraps them, contains a key or a value.
var (
	// ErrMiss says that Redis holds no usable value under the key: nothing at all, or something that is not a whole
	// envelope of this key, codec and type. [RedisStats] counts the reasons apart.
	ErrMiss = errors.New("tiers: miss")

	// ErrClosed says that the tier was closed before the call.
	ErrClosed = errors.New("tiers: closed")

	// ErrTimeout says that Redis did not answer within RedisOptions.Timeout. What was sent may still happen.
	ErrTimeout = errors.New("tiers: Redis did not answer in time")

	// ErrTooLarge says that the encoded value exceeds RedisOptions.MaxValueSize. Nothing was stored.
	ErrTooLarge = errors.New("tiers: value exceeds the size limit")
)

// EncodeError says that the codec could not encode a value, or panicked. Nothing was stored, and another attempt with
// the same value will fail as well.
type EncodeError struct {
	Err error // what the codec returned; codecs of a user's may put anything into its text
}

// Error does not repeat the codec's text, which may contain parts of the value.
func (e *EncodeError) Error() string { return "tiers: the value cannot be encoded" }

// Unwrap returns the codec's error.
func (e *EncodeError) Unwrap() error { return e.Err }

// OptionError says that there can be no view with what a field of [RedisViewOptions] holds or lacks.
type OptionError struct {
	Field   string // "Name", "Key" or "Codec"
	Problem string // the rest of a sentence that begins with the field
}

// Error names the field.
func (e *OptionError) Error() string { return "tiers: RedisViewOptions." + e.Field + " " + e.Problem }

// callError is an error of Redis or of the connection to it. The text of a Redis error can quote the command, key
// included, so only its first word, the code, is shown.
type callError struct {
	op  string
	err error
}

func (e *callError) Error() string {
	if re, ok := errors.AsType[redis.Error](e.err); ok {
		return fmt.Sprintf("tiers: redis %s: %s", e.op, errorCode(re))
	}
	return fmt.Sprintf("tiers: redis %s: %v", e.op, e.err)
}

// Unwrap hides errors of contexts: they are of the tier's own, and the caller would take them for its own.
func (e *callError) Unwrap() error {
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
		return nil
	}
	return e.err
}

// keyError is the failure of one key of a call with several. It names the key's position.
type keyError struct {
	position int
	err      error
}

func (e *keyError) Error() string { return fmt.Sprintf("key %d: %v", e.position, e.err) }

func (e *keyError) Unwrap() error { return e.err }
