package tiers

import (
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// RedisOptions configures a [Redis] tier.
type RedisOptions struct {
	Name   string // a label for errors and events; default "redis"
	Prefix string // the first part of all Redis keys, one per application or environment; letters, digits, '-', '_', '.', '/'; required

	Timeout       time.Duration // hard limit of any one call, waits for a slot and a connection included, whatever the caller's ctx allows; default 250 ms
	MaxConcurrent int           // how many calls may be out at once; a call that outlives its limit counts until it ends; default 512. Four times as many may wait
	MaxValueSize  int           // largest payload in bytes, before compression; default 1 MiB
	CompressAbove int           // payloads of more bytes than this are compressed if that saves a tenth; default 1 KiB; negative: never

	// Breaker configures the circuit breakers, one per node; Name is set by the tier. A breaker judges pipelines, of which
	// there are few under load, so MinCalls is 5 by default; OpenFor is 1 s, CloseUnder is Timeout, the rest as in
	// protection. Its Observer, if any, gets the breakers' own events.
	Breaker protection.BreakerOptions

	Observer observe.Observer // is told RedisDown, RedisUp and RedisMisuse; nil for none
}

const (
	defaultTimeout       = 250 * time.Millisecond
	defaultMaxConcurrent = 512
	defaultMaxValueSize  = 1 << 20
	defaultCompressAbove = 1 << 10
	defaultRedisMinCalls = 5
	defaultRedisOpenFor  = time.Second
	queuePerSlot         = 4
)

func (o RedisOptions) withDefaults() (RedisOptions, error) {
	if o.Name == "" {
		o.Name = "redis"
	}
	if problem := nameProblem(o.Prefix); problem != "" {
		return o, errors.New("tiers: RedisOptions.Prefix " + problem)
	}
	for _, f := range []struct {
		field string
		value *int
		std   int
		max   int
	}{
		{"MaxConcurrent", &o.MaxConcurrent, defaultMaxConcurrent, 1 << 20},
		{"MaxValueSize", &o.MaxValueSize, defaultMaxValueSize, 512 << 20}, // the longest string that Redis takes
	} {
		if *f.value < 0 || *f.value > f.max {
			return o, fmt.Errorf("tiers: RedisOptions.%s is %d: it must be from 1 to %d, or 0 for the default", f.field, *f.value, f.max)
		}
		if *f.value == 0 {
			*f.value = f.std
		}
	}
	if o.Timeout < 0 || o.Timeout > 0 && o.Timeout < time.Millisecond {
		return o, fmt.Errorf("tiers: RedisOptions.Timeout is %v: it must be at least 1 ms, or 0 for the default", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.CompressAbove == 0 {
		o.CompressAbove = defaultCompressAbove
	}
	o.Breaker.Name = o.Name
	if o.Breaker.MinCalls == 0 {
		o.Breaker.MinCalls = defaultRedisMinCalls
	}
	if o.Breaker.OpenFor == 0 {
		o.Breaker.OpenFor = defaultRedisOpenFor
	}
	if o.Breaker.CloseUnder == 0 {
		o.Breaker.CloseUnder = o.Timeout
	}
	return o, nil
}
