package protection_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// In two steps, for work that is not a function. Who does so judges the outcome as Do would.
func ExamplePermit() {
	breaker, err := protection.NewBreaker(protection.BreakerOptions{Name: "db"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	permit, err := breaker.Acquire(ctx)
	if err != nil {
		fmt.Println(err) // the work has not started
		return
	}
	err = errors.New("connection reset") // what the work came to
	outcome := permit.Outcome(ctx, err)
	fmt.Println(outcome == protection.Failure, permit.Done(outcome), permit.Done(outcome))
	// Output: true true false
}

// What counts is the caller's to say: that a row is missing tells nothing bad about the database.
func ExampleBreakerOptions_classify() {
	notFound := errors.New("not found")
	breaker, err := protection.NewBreaker(protection.BreakerOptions{
		Name: "db", MinCalls: 2,
		Classify: func(err error) protection.Outcome {
			if errors.Is(err, notFound) {
				return protection.Success
			}
			return protection.Classify(err)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 10 {
		err = protection.Do(context.Background(), breaker, func(context.Context) error { return notFound })
	}
	fmt.Println(err, "-", breaker.State())
	// Output: not found - closed
}

func ExampleBreaker_ForceOpen() {
	breaker, err := protection.NewBreaker(protection.BreakerOptions{Name: "db"})
	if err != nil {
		fmt.Println(err)
		return
	}
	breaker.ForceOpen("migration", time.Now().Add(time.Hour))
	fmt.Println(breaker.Ready())
	fmt.Println(breaker.Snapshot().Reason)

	breaker.ForceClosed(time.Now()) // and from now on as usual
	fmt.Println(breaker.Ready(), breaker.State())
	// Output:
	// protection: breaker "db" rejected the call: circuit breaker open
	// forced: migration
	// <nil> closed
}

// Shadow mode tells what a breaker would do, to find the options before they hurt.
func ExampleBreaker_Update() {
	told := make(chan observe.Event, 1)
	options := protection.BreakerOptions{
		Name: "db", MinCalls: 2, Shadow: true,
		Observer: observe.Func(func(e observe.Event) { told <- e }),
	}
	breaker, err := protection.NewBreaker(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	down := func(context.Context) error { return errors.New("connection refused") }
	for range 4 {
		err = protection.Do(context.Background(), breaker, down)
	}
	fmt.Println((<-told).Message)
	fmt.Println("the caller sees:", err)

	options.Shadow = false
	if err := breaker.Update(options); err != nil { // the state and the counts stay
		fmt.Println(err)
	}
	fmt.Println("the caller sees:", protection.Do(context.Background(), breaker, down))
	// Output:
	// shadow mode: circuit breaker opened: 3 of 3 calls failed or timed out within 10s
	// the caller sees: connection refused
	// the caller sees: protection: breaker "db" rejected the call: circuit breaker open
}

func ExampleBreaker_Snapshot() {
	breaker, err := protection.NewBreaker(protection.BreakerOptions{Name: "db"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 10 {
		_ = protection.Do(context.Background(), breaker, func(context.Context) error {
			if i == 0 {
				return context.DeadlineExceeded
			}
			return nil
		})
	}
	s := breaker.Snapshot()
	fmt.Printf("%v: %d went well, %d failed, %d timed out, %d refused\n", s.State, s.Success, s.Failure, s.Timeout, s.Rejected)
	// Output: closed: 9 went well, 0 failed, 1 timed out, 0 refused
}

func ExampleGroup() {
	hosts, err := protection.NewGroup(protection.GroupOptions[string]{
		Breaker: protection.BreakerOptions{MinCalls: 2},
		Label:   func(host string) string { return host },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := func(host string) error {
		return protection.Do(context.Background(), hosts.Get(host), func(context.Context) error {
			if host == "b.example" {
				return errors.New("connection refused")
			}
			return nil
		})
	}
	for range 4 {
		err = errors.Join(call("a.example"), call("b.example"))
	}
	fmt.Println(err)
	// Output: protection: breaker "b.example" rejected the call: circuit breaker open
}

// One clock serves all policies of a process.
func ExampleClock() {
	clock := protection.NewClock()
	defer clock.Close()
	breaker, err := protection.NewBreaker(protection.BreakerOptions{Name: "db", Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(protection.Do(context.Background(), breaker, func(context.Context) error { return nil }))
	// Output: <nil>
}

// A guarded function that calls another guarded function: with one slot and without Once the inner call would be refused.
func ExampleOnce() {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{Name: "db", MaxConcurrent: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	guard := protection.Once(bulkhead)
	query := func(ctx context.Context) error {
		return protection.Do(ctx, guard, func(context.Context) error {
			fmt.Println("in flight:", bulkhead.InFlight())
			return nil
		})
	}
	fmt.Println(protection.Do(context.Background(), guard, query))
	// Output:
	// in flight: 1
	// <nil>
}

// Code that holds a permit for longer than a function says so by the ctx.
func ExampleWithPermit() {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{Name: "db", MaxConcurrent: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := bulkhead.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := protection.WithPermit(context.Background(), bulkhead)
	fmt.Println(protection.Admitted(ctx, bulkhead))
	permit.Done(protection.Success)
	end()
	fmt.Println(protection.Admitted(ctx, bulkhead))
	// Output:
	// true
	// false
}

// A policy of one's own: it counts what runs.
func ExampleNewPermit() {
	var running int
	counter := policyFunc(func(context.Context) (protection.Permit, error) {
		running++
		return protection.NewPermit(func(protection.Outcome) { running-- }), nil
	})
	err := protection.Do(context.Background(), protection.Chain(counter), func(context.Context) error {
		fmt.Println("running:", running)
		return nil
	})
	fmt.Println("running:", running, err)
	// Output:
	// running: 1
	// running: 0 <nil>
}

type policyFunc func(context.Context) (protection.Permit, error)

func (f policyFunc) Acquire(ctx context.Context) (protection.Permit, error) { return f(ctx) }
