package main

import (
	"context"
	"errors"

	"github.com/snowshed-go/snowshed/protection"

	"github.com/snowshed-go/snowshed/internal/bench/interleave"
)

// must gives the value of a constructor whose arguments are constants of this program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // Must
	}
	return v
}

// twoStep measures Acquire and Done.
func twoStep(p protection.Policy) func(int) {
	ctx := background()
	return func(n int) {
		for range n {
			permit, err := p.Acquire(ctx)
			if err == nil {
				permit.Done(protection.Success)
			}
		}
	}
}

// do measures Do around a function that does nothing.
func do(p protection.Policy) func(int) {
	ctx := background()
	return func(n int) {
		for range n {
			_ = protection.Do(ctx, p, nothing) //nolint:errcheck // it is admitted or not, both are measured
		}
	}
}

func nothing(context.Context) error { return nil }

func background() context.Context { return context.Background() }

// ours makes a contestant of a policy that goes by a Clock, or by exact time.
func ours(name string, coarse bool, use func(protection.Policy) func(int), policy func(*protection.Clock) protection.Policy) interleave.Contestant {
	return interleave.Contestant{Name: name, New: func() (func(int), func()) {
		if !coarse {
			return use(policy(nil)), nil
		}
		clock := protection.NewClock()
		return use(policy(clock)), clock.Close
	}}
}

func breaker(c *protection.Clock) protection.Policy {
	return must(protection.NewBreaker(protection.BreakerOptions{Name: "bench", Clock: c}))
}

func tripped(c *protection.Clock) protection.Policy {
	b := must(protection.NewBreaker(protection.BreakerOptions{Name: "bench", Clock: c, OpenFor: 1 << 60}))
	for range 100 {
		if permit, err := b.Acquire(background()); err == nil {
			permit.Done(protection.Failure)
		}
	}
	if _, err := b.Acquire(background()); !errors.Is(err, protection.ErrOpen) {
		panic(err) // Must
	}
	return b
}

func bucket(c *protection.Clock) protection.Policy {
	return must(protection.NewTokenBucket(protection.TokenBucketOptions{Name: "bench", Rate: plenty, Burst: plenty, Clock: c}))
}

func empty(c *protection.Clock) protection.Policy {
	b := must(protection.NewTokenBucket(protection.TokenBucketOptions{Name: "bench", Rate: 1e-9, Burst: 1, Clock: c}))
	b.AllowN(1)
	return b
}

func bulkhead(*protection.Clock) protection.Policy {
	return must(protection.NewBulkhead(protection.BulkheadOptions{Name: "bench", MaxConcurrent: slots}))
}

func chain(c *protection.Clock) protection.Policy {
	return protection.Chain(bucket(c), bulkhead(c), breaker(c))
}

// allow measures a bucket without the reason of a refusal.
func allow(p protection.Policy) func(int) {
	b := p.(*protection.TokenBucket) //nolint:errcheck,forcetypeassert // it is one
	return func(n int) {
		for range n {
			b.AllowN(1)
		}
	}
}
