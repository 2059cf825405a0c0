package tiers

import (
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/snowshed-go/snowshed/internal/contain"
)

// More reasons why what Redis holds is no value of a view. They are compared, never shown.
var (
	errKey    = errors.New("of another key")
	errCodec  = errors.New("of another codec")
	errType   = errors.New("of another type")
	errDecode = errors.New("does not decode")
	errNoTTL  = errors.New("has no time to live")
	errMoved  = errors.New("moved during the read")
	errLonger = errors.New("has more time to live than it was stored with")
)

// ttlSlack is by how much the time to live may exceed what was stored: the clock of Redis may be slewed, and after a
// failover another one counts.
const ttlSlack = 100 * time.Millisecond

// pack returns the envelope of s under the Redis key.
func (v *RedisView[K, V]) pack(rk string, s Stored[V]) ([]byte, error) {
	h := header{
		fingerprint: v.fingerprint, keyHash: xxhash.Sum64String(rk), generation: s.Generation, number: s.Number,
		life: s.Life, ttl: s.TTL, age: s.Age, loadTime: s.LoadTime,
	}
	if s.NotFound {
		h.flags = flagNotFound
		return sealed(h, nil), nil
	}
	h.codec = v.codecID
	r := v.redis
	encoded, squeezed := r.buffer(), r.buffer()
	defer r.release(encoded)
	defer r.release(squeezed)

	payload, err := contain.Call(func() ([]byte, error) { return v.codec.Encode((*encoded)[:0], s.Value) })
	if err != nil {
		r.counts.encode.Add()
		return nil, &EncodeError{err}
	}
	*encoded = payload
	if len(payload) > r.opt.MaxValueSize {
		r.counts.tooLarge.Add()
		return nil, ErrTooLarge
	}
	if r.opt.CompressAbove >= 0 && len(payload) > r.opt.CompressAbove {
		small, worth := compress(*squeezed, payload)
		*squeezed = small
		if worth {
			h.flags |= flagCompressed
			payload = small
		}
	}
	return sealed(h, payload), nil
}

func sealed(h header, payload []byte) []byte {
	b := append(appendHeader(make([]byte, 0, headerSize+len(payload)), h), payload...)
	seal(b)
	return b
}

// unpack returns the value in the envelope b that Redis keeps for the remaining time, or the reason why it is none.
func (v *RedisView[K, V]) unpack(rk string, b []byte, remaining time.Duration) (s Stored[V], err error) {
	h, payload, err := parseEnvelope(b)
	notFound := h.flags&flagNotFound != 0
	switch {
	case err != nil:
		return s, err
	case h.keyHash != xxhash.Sum64String(rk):
		return s, errKey
	case h.fingerprint != v.fingerprint:
		return s, errType
	case !notFound && h.codec != v.codecID:
		return s, errCodec
	case remaining > h.life-h.age+ttlSlack:
		return s, errLonger
	}
	s = Stored[V]{
		NotFound: notFound, TTL: h.ttl, Life: h.life, LoadTime: h.loadTime, Generation: h.generation, Number: h.number,
		Age: h.life - remaining,
	}
	if s.Age < h.age { // by the slack
		s.Age = h.age
	}
	if notFound {
		return s, nil
	}
	if h.flags&flagCompressed != 0 {
		if payload, err = decompress(payload, v.redis.opt.MaxValueSize); err != nil {
			return Stored[V]{}, errDecode
		}
	}
	if s.Value, err = contain.Call(func() (V, error) { return v.codec.Decode(payload) }); err != nil {
		return Stored[V]{}, errDecode
	}
	return s, nil
}

// keptBuffer is the largest buffer that is kept for later values.
const keptBuffer = 64 << 10

func (r *Redis) buffer() *[]byte {
	if b, ok := r.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (r *Redis) release(b *[]byte) {
	if cap(*b) <= keptBuffer {
		r.buffers.Put(b)
	}
}
