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

// run sends requests in an open loop: each has its moment, whether or not earlier ones were answered, and its latency
// counts from that moment. It returns when all are answered.
func (d *drive) run(ctx context.Context, s subject, log *log) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	interval := float64(time.Second) / d.Rate
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sent := 0; ; {
		now := time.Now()
		for {
			intended := d.From.Add(time.Duration(float64(sent) * interval))
			if intended.After(now) {
				break
			}
			if !intended.Before(d.To) {
				return nil
			}
			sent++
			wg.Go(func() { d.Ask.request(ctx, intended, s, log) })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run lets all callers ask at one moment, and returns when all are answered.
func (b *burst) run(ctx context.Context, s subject, log *log) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	start := make(chan struct{})
	defer close(start)
	for range b.Callers {
		wg.Go(func() {
			<-start
			b.Ask.request(ctx, time.Now(), s, log)
		})
	}
	return pause(ctx, time.Until(b.At))
}

// request is a client: it asks, and asks again after a failure, until it has an answer, no attempt or no time.
func (a ask) request(ctx context.Context, intended time.Time, s subject, log *log) {
	ctx, cancel := context.WithDeadline(ctx, intended.Add(a.Deadline))
	defer cancel()
	n := a.N
	if a.Extra > 0 && !intended.Before(a.Since) {
		n += a.Extra
	}
	id := rand.Int64N(n)
	for attempt := 1; ; attempt++ {
		hit, stale, err := s.Get(ctx, id)
		k := classify(hit, stale, err)
		if k.ok() || attempt >= a.Attempts || pause(ctx, time.Duration(50+rand.IntN(100))*time.Millisecond) != nil {
			log.add(sample{intended, time.Since(intended), k}, err)
			return
		}
	}
}

// kind is how a request ended.
type kind uint8

const (
	loaded   kind = iota // answered after a load
	hit                  // answered from the cache
	stale                // answered with a value past its TTL
	absent               // answered that there is no such article
	rejected             // refused with a typed error
	failed               // any other error
	timedOut             // the deadline of the request passed
	kinds
)

func (k kind) ok() bool { return k <= absent }

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
	case errors.Is(err, errAbsent):
		return absent
	case errors.Is(err, protection.ErrRejected), errors.As(err, &backoff):
		return rejected
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return timedOut
	}
	return failed
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
