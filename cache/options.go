package cache

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/snowshed-go/snowshed/loader"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/tiers"
)

// The defaults of Options.
const (
	DefaultJitter          = 0.1
	DefaultNegativeTTL     = 30 * time.Second
	DefaultLoadTimeout     = 5 * time.Second
	DefaultSoftTimeout     = 100 * time.Millisecond
	DefaultBeta            = 1.0
	DefaultRetryBackoff    = 100 * time.Millisecond
	DefaultMaxRetryBackoff = 5 * time.Second
)

// The bounds of every duration in Options that is not off.
const (
	shortest = time.Millisecond
	longest  = 50 * 365 * 24 * time.Hour // so that no sum of two runs over
)

// Options configures a [Cache]. Zero means the default. Where a field says so, a negative value turns its feature off.
type Options[K comparable, V any] struct {
	// Name is the label of the cache in events, errors and Redis keys. Required; unique among the caches of a Remote.
	Name string
	// Load loads the value of a key from the source. Required.
	Load loader.Func[K, V]
	// TTL is how long a value is fresh, counted from the start of its load. Required, from 1 ms up.
	TTL time.Duration

	// Local is the tier in memory, shared by the caches of a process. Default: one of the cache's own, with the
	// defaults of [tiers.LocalOptions], closed with the cache.
	Local *tiers.Local
	// Remote is the tier in Redis, shared by the fleet. Nil: no second tier.
	Remote *tiers.Redis

	// Jitter is the part of its TTL by which a value may expire early, drawn for each value so that values stored
	// together do not expire together. Default 0.1, less than 1; negative: off.
	Jitter float64
	// NegativeTTL is how long it is remembered that the source does not have a key. Default: the smaller of TTL and
	// 30 s; negative: off.
	NegativeTTL time.Duration
	// StaleWhileRevalidate is how long after the end of its TTL a value is still answered at once while it is refreshed
	// behind (RFC 5861). Default: the smaller of TTL/10 and 1 min; negative: off.
	StaleWhileRevalidate time.Duration
	// StaleIfError is how long after the end of its TTL a value is still answered when its load fails, is refused or
	// takes longer than SoftTimeout (RFC 5861). Values live in Redis for TTL + StaleIfError. Default: the smaller of TTL
	// and 1 h; negative: off.
	StaleIfError time.Duration
	// LocalTTL is how long a copy in memory may be answered without asking Redis. Default, and at most: TTL.
	LocalTTL time.Duration

	// LoadTimeout is the deadline of one load, waiting in the guard included, whoever waits for it. Default 5 s.
	LoadTimeout time.Duration
	// SoftTimeout is how long a Get that has a stale value at hand waits for a load before it answers the stale value;
	// the load goes on. Default 100 ms; negative: as long as the load takes.
	SoftTimeout time.Duration
	// Beta scales how early a value that is read often is refreshed before it expires (XFetch: Vattani, Chierichetti,
	// Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015). Default 1; negative: no early refresh.
	Beta float64
	// RetryBackoff is how long a key rests after its load failed; it doubles with each further failure up to
	// MaxRetryBackoff, and is jittered. Default 100 ms; negative: no rest.
	RetryBackoff time.Duration
	// MaxRetryBackoff bounds RetryBackoff. Default 5 s.
	MaxRetryBackoff time.Duration
	// Refreshers is how many refreshes may run at once behind answers. Default: 2 × GOMAXPROCS; at most 65,536.
	Refreshers int

	// Guard admits or refuses each load, bounds how long it may run if it has an execution timeout, and is told how it
	// ended by its own classifier. Nil: all are admitted, which suits a Load that is guarded itself.
	Guard protection.Policy
	// Key turns a key into text for Redis and must give different texts for different keys. Default for strings,
	// integers and types based on them; required for others.
	Key func(K) string
	// Codec turns values into bytes for Redis. Default: [tiers.DefaultCodec].
	Codec tiers.Codec[V]
	// Clone copies a value for each caller. Default: callers share values and must not modify them.
	Clone func(V) V
	// Size returns the bytes of memory that a value takes. Default: an estimate.
	Size func(V) int
	// Observer receives events. Nil: nobody does.
	Observer observe.Observer
}

const mostRefreshers = 1 << 16

// withDefaults returns a copy in which every field is set, and off features are zero or false.
func (o Options[K, V]) withDefaults() (Options[K, V], error) {
	if o.Name == "" {
		return o, errors.New("cache: Options.Name is required")
	}
	if o.Load == nil {
		return o, o.bad("Load", "is required")
	}
	if o.TTL < shortest || o.TTL > longest {
		return o, o.bad("TTL", "is %v, not between %v and %v", o.TTL, shortest, longest)
	}
	if math.IsNaN(o.Jitter) || o.Jitter >= 1 {
		return o, o.bad("Jitter", "is %v, not less than 1", o.Jitter)
	}
	if math.IsNaN(o.Beta) || math.IsInf(o.Beta, 0) {
		return o, o.bad("Beta", "is %v", o.Beta)
	}
	if o.Refreshers < 0 || o.Refreshers > mostRefreshers {
		return o, o.bad("Refreshers", "is %d, not between 0 and %d", o.Refreshers, mostRefreshers)
	}
	o.Jitter = orDefault(o.Jitter, DefaultJitter)
	o.Beta = orDefault(o.Beta, DefaultBeta)
	if o.Refreshers == 0 {
		o.Refreshers = 2 * runtime.GOMAXPROCS(0)
	}
	if err := o.setDurations(); err != nil {
		return o, err
	}
	if o.LocalTTL > o.TTL {
		return o, o.bad("LocalTTL", "is %v, more than the TTL of %v", o.LocalTTL, o.TTL)
	}
	if o.RetryBackoff > o.MaxRetryBackoff {
		return o, o.bad("MaxRetryBackoff", "is %v, less than the RetryBackoff of %v", o.MaxRetryBackoff, o.RetryBackoff)
	}
	if o.Key == nil {
		key, err := tiers.KeyEncoder[K]()
		if err != nil {
			return o, o.bad("Key", "is required: %w", err)
		}
		o.Key = key
	}
	return o, nil
}

// setDurations sets the durations that have defaults.
func (o *Options[K, V]) setDurations() error {
	for _, d := range []struct {
		name string
		at   *time.Duration
		def  time.Duration
		off  bool // whether a negative value is allowed
	}{
		{"NegativeTTL", &o.NegativeTTL, min(o.TTL, DefaultNegativeTTL), true},
		{"StaleWhileRevalidate", &o.StaleWhileRevalidate, min(o.TTL/10, time.Minute), true},
		{"StaleIfError", &o.StaleIfError, min(o.TTL, time.Hour), true},
		{"LocalTTL", &o.LocalTTL, o.TTL, false},
		{"LoadTimeout", &o.LoadTimeout, DefaultLoadTimeout, false},
		{"SoftTimeout", &o.SoftTimeout, DefaultSoftTimeout, true},
		{"RetryBackoff", &o.RetryBackoff, DefaultRetryBackoff, true},
		{"MaxRetryBackoff", &o.MaxRetryBackoff, max(DefaultMaxRetryBackoff, o.RetryBackoff), false},
	} {
		switch v := *d.at; {
		case v == 0:
			*d.at = d.def
		case v < 0 && d.off:
			*d.at = 0
		case v < shortest || v > longest:
			return o.bad(d.name, "is %v, not between %v and %v", v, shortest, longest)
		}
	}
	return nil
}

func (o *Options[K, V]) bad(field, format string, args ...any) error {
	return fmt.Errorf("cache %q: Options.%s "+format, append([]any{o.Name, field}, args...)...)
}

// orDefault maps zero to the default and a negative number to off, which is zero.
func orDefault(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return max(v, 0)
}
