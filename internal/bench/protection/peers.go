package main

import (
	"errors"
	"time"

	"github.com/afex/hystrix-go/hystrix"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
	zero "github.com/zeromicro/go-zero/core/breaker"
	"go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/snowshed-go/snowshed/internal/bench/interleave"
)

const (
	plenty = 1_000_000_000 // a rate and a burst that nothing here comes near to
	slots  = 1024
)

var errDown = errors.New("down")

// peer makes a contestant of one operation.
func peer(name string, setUp func() func()) interleave.Contestant {
	return interleave.Contestant{Name: name, New: func() (func(int), func()) {
		op := setUp()
		return func(n int) {
			for range n {
				op()
			}
		}, nil
	}}
}

func goBreaker() func() {
	b := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{Name: "bench"})
	work := func() (struct{}, error) { return struct{}{}, nil }
	return func() { _, _ = b.Execute(work) } //nolint:errcheck // nothing fails
}

func goBreakerOpen() func() {
	b := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{Name: "bench", Timeout: time.Hour})
	work := func() (struct{}, error) { return struct{}{}, errDown }
	for range 100 {
		_, _ = b.Execute(work) //nolint:errcheck // so that it trips
	}
	if b.State() != gobreaker.StateOpen {
		panic(errDown) // Must
	}
	return func() { _, _ = b.Execute(work) } //nolint:errcheck // refused
}

func failsafeBreaker() circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(time.Hour).Build()
}

func failsafeRun() func() {
	run := failsafe.With[any](failsafeBreaker())
	work := func() error { return nil }
	return func() { _ = run.Run(work) } //nolint:errcheck // nothing fails
}

func failsafeTwoStep() func() {
	b := failsafeBreaker()
	return func() {
		if b.TryAcquirePermit() {
			b.RecordSuccess()
		}
	}
}

func failsafeOpen() func() {
	b := failsafeBreaker()
	b.Open()
	return func() { b.TryAcquirePermit() }
}

func hystrixDo() func() {
	hystrix.ConfigureCommand("bench", hystrix.CommandConfig{MaxConcurrentRequests: slots})
	work := func() error { return nil }
	return func() { _ = hystrix.Do("bench", work, nil) } //nolint:errcheck // nothing fails
}

func goZero() func() {
	b := zero.NewBreaker()
	work := func() error { return nil }
	return func() { _ = b.Do(work) } //nolint:errcheck // nothing fails
}

func xTimeRate() func() {
	l := rate.NewLimiter(plenty, plenty)
	return func() { l.Allow() }
}

func xTimeRateEmpty() func() {
	l := rate.NewLimiter(1e-9, 1)
	l.Allow()
	return func() { l.Allow() }
}

func uberRateLimit() func() {
	l := ratelimit.New(plenty)
	return func() { l.Take() }
}

func xSync() func() {
	s := semaphore.NewWeighted(slots)
	ctx := background()
	return func() {
		if s.Acquire(ctx, 1) == nil {
			s.Release(1)
		}
	}
}
