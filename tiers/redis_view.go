package tiers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stored is a value as the Redis tier keeps it. Durations count from the start of the load that made it.
type Stored[V any] struct {
	Value      V
	NotFound   bool          // the source has no such row; Value is zero
	Age        time.Duration // on Get: the time since the start of its load, as exact as [RedisView.Get] says; on Set: how long ago the load started
	TTL        time.Duration // fresh life; in Redis in whole milliseconds, as Age and Life
	Life       time.Duration // physical life: TTL and the longest stale window
	LoadTime   time.Duration // how long the load took; in Redis in whole microseconds
	Generation uint64        // of the cache, as read before the load
	Number     uint64        // the fencing number of the load's lease; 0 if it had none
}

// RedisViewOptions configures a [RedisView].
type RedisViewOptions[K comparable, V any] struct {
	Name  string         // the cache's name, the second part of its Redis keys; the same characters as RedisOptions.Prefix; required
	Key   func(K) string // returns a different string for each key; any bytes; default [KeyEncoder]. Safe for concurrent use
	Codec Codec[V]       // default [DefaultCodec]
}

// RedisView is one cache's part of a [Redis] tier: keys of type K, values of type V. It is safe for concurrent use.
// Values that Get returns belong to the caller.
//
// A RedisView[string, V] of the same name, given keys that another view's Key has encoded, sees the same values.
type RedisView[K comparable, V any] struct {
	redis       *Redis
	base        string // the Redis keys' first part
	encode      func(K) string
	codec       Codec[V]
	codecID     byte
	fingerprint uint32
}

// NewRedisView returns the view of the cache o.Name, or an error that names what cannot be: an [*OptionError] if it is an
// option.
func NewRedisView[K comparable, V any](r *Redis, o RedisViewOptions[K, V]) (*RedisView[K, V], error) {
	if r == nil {
		return nil, errors.New("tiers: NewRedisView: the tier is nil")
	}
	if problem := nameProblem(o.Name); problem != "" {
		return nil, &OptionError{"Name", problem}
	}
	if o.Key == nil {
		encode, err := KeyEncoder[K]()
		if err != nil {
			return nil, &OptionError{"Key", "is required: " + err.Error()}
		}
		o.Key = encode
	}
	if o.Codec == nil {
		o.Codec = DefaultCodec[V]()
	}
	v := &RedisView[K, V]{
		redis: r, base: r.opt.Prefix + ":" + o.Name + ":",
		encode: o.Key, codec: o.Codec, codecID: o.Codec.ID(), fingerprint: typeFingerprint(reflect.TypeFor[V](), false),
	}
	if own, ok := any(o.Codec).(fingerprinter); ok {
		v.fingerprint = own.fingerprint()
	} else if v.codecID < firstUserID {
		return nil, &OptionError{"Codec", fmt.Sprintf("has the ID %d: 0 to %d belong to the codecs of this package", v.codecID, firstUserID-1)}
	}
	if own, ok := any(o.Codec).(checker); ok {
		if problem := own.problem(); problem != "" {
			return nil, &OptionError{"Codec", problem}
		}
	}
	return v, nil
}

// Get returns the value stored under key. It returns [ErrMiss] if there is none that the view can read, ctx's error as
// soon as ctx ends, [ErrTimeout], a [*protection.RejectedError], [ErrClosed], or what Redis or the connection to it failed with.
//
// The value's age is its life less the time that Redis will keep it: never less than it was when Get sent its request, but
// for two things. One is the time from when Set's client wrote the value until Redis took it, at most Timeout if that Set
// returned nil; if it returned an error, Redis may have taken the value after a stall of any length. The other is a step
// back of the wall clock of Redis, or an EXPIRE, while it held the value; if more time is left than there was when the
// value was stored, by more than 100 ms, that is noticed and the value is a miss.
func (v *RedisView[K, V]) Get(ctx context.Context, key K) (Stored[V], error) {
	rk := redisKey(v.base, v.encode(key))
	b, remaining, err := v.redis.read(ctx, rk)
	if err != nil {
		return Stored[V]{}, err
	}
	s, err := v.unpack(rk, b, remaining)
	if err != nil {
		v.redis.counts.unreadable(err).Add()
		return Stored[V]{}, ErrMiss
	}
	v.redis.counts.hits.Add()
	return s, nil
}

// Set stores s under key until its life ends; if less than 1 ms of that is left it stores nothing and returns nil. The
// client counts until it writes the value, Redis from when it takes it: the life is longer by the time between, which is
// at most Timeout if Set returns nil, and 2 ms of rounding. Set returns [ErrTooLarge] or an [*EncodeError] if the value
// cannot be kept, and otherwise the errors of Get, apart from ErrMiss. After ctx's error or ErrTimeout the value may be
// stored or not, or be stored later.
func (v *RedisView[K, V]) Set(ctx context.Context, key K, s Stored[V]) error {
	if s.Age < 0 || s.TTL < 0 || s.LoadTime < 0 || s.Life < s.TTL {
		return errors.New("tiers: Stored.Age, TTL and LoadTime must not be negative, and Life not less than TTL")
	}
	left := s.Life - s.Age
	if left < time.Millisecond {
		return nil
	}
	until := time.Now().Add(left)
	rk := redisKey(v.base, v.encode(key))
	envelope, err := v.pack(rk, s)
	if err != nil {
		return err
	}
	c := newCall(opSet, rk)
	c.envelope, c.until = envelope, until
	if err := v.redis.do(ctx, c); err != nil {
		return err
	}
	if c.set != nil {
		v.redis.counts.sets.Add()
	}
	return nil
}

// Delete deletes the keys; absent ones are no error. It goes on after a failure and returns the failures of all keys,
// joined, each with its key's position in the call, and errors as in Get.
func (v *RedisView[K, V]) Delete(ctx context.Context, keys ...K) error {
	rks := make([]string, len(keys))
	for i, key := range keys {
		rks[i] = redisKey(v.base, v.encode(key))
	}
	return v.redis.deleteKeys(ctx, rks)
}

// read returns what Redis holds under the key and how long it will keep it. The bytes must not be changed.
func (r *Redis) read(ctx context.Context, rk string) (b []byte, remaining time.Duration, err error) {
	c := newCall(opGet, rk)
	if err := r.do(ctx, c); err != nil {
		if redis.HasErrorPrefix(err, "WRONGTYPE") { // something that is not ours lies there
			r.counts.malformed.Add()
			return nil, 0, ErrMiss
		}
		return nil, 0, err
	}
	b, err = c.get.Bytes()
	remaining = c.pttl.Val()
	switch {
	case errors.Is(err, redis.Nil), remaining == keyAbsent: // in the second case it came after PTTL had looked
		r.counts.misses.Add()
	case err != nil: // not possible: do would have failed
		r.counts.malformed.Add()
	case remaining < 0:
		r.counts.noTTL.Add()
	case !c.ordered():
		r.counts.moved.Add()
	default:
		return b, remaining, nil
	}
	return nil, 0, ErrMiss
}

// keyAbsent is PTTL's answer for a key that is not there.
const keyAbsent = -2
