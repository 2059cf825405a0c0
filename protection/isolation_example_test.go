package protection_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// A hanging dependency that is not core takes the slots of its own island alone.
func ExampleIslands() {
	islands, err := protection.NewIslands(protection.IslandsOptions{
		Name: "shop",
		Islands: []protection.IslandOptions{
			{Class: "core", Bulkhead: protection.BulkheadOptions{MaxConcurrent: 24, MaxQueue: 24}},
			{Class: "recommendations", Bulkhead: protection.BulkheadOptions{MaxConcurrent: 2}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	extra := protection.WithClass(context.Background(), "recommendations")
	for range 2 { // two calls hang: their permits do not come back
		if _, err := islands.Acquire(extra); err != nil {
			fmt.Println(err)
		}
	}
	_, err = islands.Acquire(extra)
	fmt.Println(err)

	core := protection.WithClass(context.Background(), "core")
	fmt.Println(protection.Do(core, islands, func(context.Context) error { return nil }))
	// Output:
	// protection: bulkhead "shop/recommendations" rejected the call: no free slot and the queue is full
	// <nil>
}

// Under a burst, as many calls as there are slots run, some wait for a moment, and the rest are refused at once.
func ExampleBulkhead_burst() {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{
		Name: "db", MaxConcurrent: 8, MaxQueue: 8, MaxWait: 50 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answers := make(chan error, 100)
	work := make(chan struct{})
	for range 100 {
		go func() {
			answers <- protection.Do(context.Background(), bulkhead, func(context.Context) error { <-work; return nil })
		}()
	}
	refused := 0
	for range 84 { // come back while nothing has been done yet
		if errors.Is(<-answers, protection.ErrRejected) {
			refused++
		}
	}
	fmt.Println(refused, "refused,", bulkhead.InFlight(), "run")
	close(work)
	// Output: 84 refused, 8 run
}

func ExampleBulkhead_AcquireN() {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{Name: "db", MaxConcurrent: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := bulkhead.AcquireN(context.Background(), 6) // a report weighs as much as six reads
	fmt.Println(bulkhead.InFlight(), err)
	report.Done(protection.Success)
	fmt.Println(bulkhead.InFlight())
	// Output:
	// 6 <nil>
	// 0
}

// The caller of work that ignores its ctx is free at the timeout; the worker is not, until the work ends.
func ExamplePool() {
	pool, err := protection.NewPool(protection.PoolOptions{Name: "disk", Workers: 1, Timeout: 20 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	unplugged := make(chan struct{})
	_, err = protection.PoolValue(context.Background(), pool, func(context.Context) ([]byte, error) {
		<-unplugged
		return nil, nil
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), pool.Zombies())
	fmt.Println(pool.Do(context.Background(), func(context.Context) error { return nil }))
	close(unplugged)
	fmt.Println(pool.Close(context.Background()), pool.Zombies())
	// Output:
	// protection: pool "disk": the task has not ended within 20ms
	// true 1
	// protection: pool "disk" rejected the call: no free slot and the queue is full
	// <nil> 0
}

// A slow dependency: the call has 20 ms, the wait for a slot 10 ms, and too many timeouts open the breaker.
func ExampleNewExecutionTimeout() {
	timeout, err1 := protection.NewExecutionTimeout(20 * time.Millisecond)
	bulkhead, err2 := protection.NewBulkhead(protection.BulkheadOptions{Name: "search", MaxConcurrent: 16, MaxQueue: 16, MaxWait: 10 * time.Millisecond})
	breaker, err3 := protection.NewBreaker(protection.BreakerOptions{Name: "search", MinCalls: 1})
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	guard := protection.Chain(bulkhead, breaker, timeout)
	for range 3 {
		fmt.Println(protection.Do(context.Background(), guard, func(ctx context.Context) error {
			<-ctx.Done() // the answer would take a second
			return ctx.Err()
		}))
	}
	// Output:
	// context deadline exceeded
	// context deadline exceeded
	// protection: breaker "search" rejected the call: circuit breaker open
}

func ExampleNewWaitTimeout() {
	outer, err1 := protection.NewBulkhead(protection.BulkheadOptions{Name: "all", MaxConcurrent: 8, MaxQueue: 8})
	inner, err2 := protection.NewBulkhead(protection.BulkheadOptions{Name: "reports", MaxConcurrent: 1, MaxQueue: 8})
	guard, err3 := protection.NewWaitTimeout("reports", protection.Chain(outer, inner), 10*time.Millisecond)
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	err := protection.Do(context.Background(), guard, func(ctx context.Context) error {
		return protection.Do(ctx, guard, func(context.Context) error { return nil }) // waits for itself
	})
	fmt.Println(err)
	// Output: protection: wait timeout "reports" rejected the call: waited too long for a free slot
}

func ExampleFallback() {
	fallback, err := protection.NewFallback(protection.FallbackOptions[string]{
		Name: "prices",
		Stages: []protection.Stage[string]{
			protection.StaleValue(func(context.Context) (string, bool) { return "", false }), // nothing stored yet
			protection.OtherLoader(func(context.Context) (string, error) { return "9.99", nil }, 4),
			protection.StaticValue("ask us"),
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	price, err := fallback.Do(context.Background(), nil, func(context.Context) (string, error) {
		return "", errors.New("connection refused")
	})
	fmt.Println(price.Value, err)
	fmt.Println(price.Degraded(), price.By, price.Cause)
	// Output:
	// 9.99 <nil>
	// true loader connection refused
}

func ExampleAlarms() {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{Name: "db", MaxConcurrent: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	alarms, err := protection.NewAlarms(protection.AlarmsOptions{
		Signals: []protection.Signal{bulkhead.Signal()},
		Observer: observe.Func(func(e observe.Event) {
			fmt.Println(e.Level, e.Source, e.Alarm.Cause, e.Alarm.Phase, "-", e.Message)
		}),
		Every: -1, // this example checks by hand; leave it out to check every second
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer alarms.Close(context.Background())

	permit, err := bulkhead.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	alarms.Check()
	alarms.Check() // still the same alarm
	permit.Done(protection.Success)
	// Output: critical db full raised - 1 of 1 slots and 0 of 0 places in the queue are taken
}
