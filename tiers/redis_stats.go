package tiers

import (
	"errors"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// RedisStats counts what a [Redis] tier has done since it was made, over all its views. Every Get ends in exactly one of
// Hits, Misses, one of Unreadable, Errors, Timeouts, Cancelled or Rejected, unless the tier is closed.
type RedisStats struct {
	Hits       uint64 // reads that found a value or a stored not-found
	Misses     uint64 // reads that found nothing
	Unreadable UnreadableStats
	Sets       uint64 // values stored
	Deletes    uint64 // keys deleted, or found absent

	Errors       uint64 // calls that Redis or the connection to it failed
	Timeouts     uint64 // calls that Redis did not answer within Timeout
	Cancelled    uint64 // calls whose caller's ctx ended first
	Rejected     uint64 // calls that a breaker or the bulkhead refused
	TooLarge     uint64 // values over MaxValueSize
	EncodeErrors uint64 // values that their codec could not encode
	InFlight     int    // calls that run now, including those whose caller has gone
}

// UnreadableStats counts reads that found something which is no value of the view, by reason. Each was a miss to the caller.
type UnreadableStats struct {
	Malformed uint64 // not an envelope at all, or one with impossible fields
	Version   uint64 // an envelope of another version
	Checksum  uint64 // a damaged one
	Key       uint64 // one of another key
	Codec     uint64 // written with another codec
	Type      uint64 // written for another type
	Decode    uint64 // its payload does not decompress, or the codec failed or panicked
	NoTTL     uint64 // without a time to live, so of unknown age
	Moved     uint64 // its age is unknown, since its slot moved during the read
	Extended  uint64 // with more time to live than it was stored with, so of unknown age: by an EXPIRE, a clock put back, or a newer value that came during the read
}

type redisCounters struct {
	hits, misses, sets, deletes                                                           observe.Counter
	errors, timeouts, cancelled, rejected, tooLarge, encode                               observe.Counter
	malformed, version, checksum, key, codec, fingerprint, decode, noTTL, moved, extended observe.Counter
}

// Stats returns the counters. They are read one by one while calls go on.
func (r *Redis) Stats() RedisStats {
	c := &r.counts
	return RedisStats{
		Hits: c.hits.Load(), Misses: c.misses.Load(), Sets: c.sets.Load(), Deletes: c.deletes.Load(),
		Errors: c.errors.Load(), Timeouts: c.timeouts.Load(), Cancelled: c.cancelled.Load(), Rejected: c.rejected.Load(),
		TooLarge: c.tooLarge.Load(), EncodeErrors: c.encode.Load(), InFlight: r.gate.inside(),
		Unreadable: UnreadableStats{
			Malformed: c.malformed.Load(), Version: c.version.Load(), Checksum: c.checksum.Load(), Key: c.key.Load(),
			Codec: c.codec.Load(), Type: c.fingerprint.Load(), Decode: c.decode.Load(), NoTTL: c.noTTL.Load(), Moved: c.moved.Load(), Extended: c.extended.Load(),
		},
	}
}

// unreadable returns the counter of the reason.
func (c *redisCounters) unreadable(reason error) *observe.Counter {
	switch {
	case errors.Is(reason, errVersion):
		return &c.version
	case errors.Is(reason, errChecksum):
		return &c.checksum
	case errors.Is(reason, errKey):
		return &c.key
	case errors.Is(reason, errCodec):
		return &c.codec
	case errors.Is(reason, errType):
		return &c.fingerprint
	case errors.Is(reason, errDecode):
		return &c.decode
	case errors.Is(reason, errNoTTL):
		return &c.noTTL
	case errors.Is(reason, errMoved):
		return &c.moved
	case errors.Is(reason, errLonger):
		return &c.extended
	default:
		return &c.malformed
	}
}

// note counts the end of a call that did not succeed.
func (c *redisCounters) note(err error) {
	if err == nil {
		return
	}
	failed, ok := errors.AsType[*callError](err)
	switch {
	case errors.Is(err, ErrClosed):
	case errors.Is(err, protection.ErrRejected):
		c.rejected.Add()
	case errors.Is(err, ErrTimeout):
		c.timeouts.Add()
	case !ok:
		c.cancelled.Add()
	case classify(failed.err) != protection.Success: // else Redis has answered that what lies there is not ours
		c.errors.Add()
	}
}
