package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/protection"
)

// drive sends requests in an open loop: each has its moment, whether or not earlier ones were answered, and its latency
// counts from that moment. It returns when all are answered.
func drive(ctx context.Context, rate int, deadline time.Duration, from, to time.Time, keys int, s subject, rec *recorder) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	interval := float64(time.Second) / float64(rate)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sent := 0; ; {
		now := time.Now()
		for {
			intended := from.Add(time.Duration(float64(sent) * interval))
			if intended.After(now) {
				break
			}
			if !intended.Before(to) {
				return nil
			}
			sent++
			wg.Go(func() { request(ctx, deadline, intended, rand.Int64N(int64(keys)), s, rec) })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func request(ctx context.Context, deadline time.Duration, intended time.Time, id int64, s subject, rec *recorder) {
	ctx, cancel := context.WithDeadline(ctx, intended.Add(deadline))
	hit, stale, err := s.Get(ctx, id)
	cancel()
	rec.add(intended, time.Since(intended), classify(hit, stale, err), err)
}

// kind is how a request ended.
type kind uint8

const (
	loaded   kind = iota // answered after a load
	hit                  // answered from the cache
	stale                // answered with a value past its TTL
	rejected             // refused with a typed error
	failed               // any other error
	timedOut             // the deadline of the request passed
	kinds
)

func (k kind) ok() bool { return k <= stale }

func classify(isHit, isStale bool, err error) kind {
	var backoff *cache.BackoffError
	var network net.Error
	switch {
	case err == nil && isStale:
		return stale
	case err == nil && isHit:
		return hit
	case err == nil:
		return loaded
	case errors.Is(err, protection.ErrRejected), errors.As(err, &backoff):
		return rejected
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return timedOut
	}
	return failed
}
