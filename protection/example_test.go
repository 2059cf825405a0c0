package protection_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/protection"
)

func ExampleBreaker() {
	breaker, err := protection.NewBreaker(protection.BreakerOptions{Name: "db", MinCalls: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	down := errors.New("connection refused")
	for range 4 {
		err := protection.Do(context.Background(), breaker, func(context.Context) error { return down })
		fmt.Println(err)
	}
	// Output:
	// connection refused
	// connection refused
	// connection refused
	// protection: breaker "db" rejected the call: circuit breaker open
}

func ExampleBulkhead() {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{Name: "reports", MaxConcurrent: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	permit, err := bulkhead.Acquire(ctx)
	fmt.Println(bulkhead.InFlight(), err)

	_, err = bulkhead.Acquire(ctx)
	fmt.Println(err)

	fmt.Println(permit.Done(protection.Success), permit.Done(protection.Success))
	fmt.Println(bulkhead.InFlight())
	// Output:
	// 1 <nil>
	// protection: bulkhead "reports" rejected the call: no free slot and the queue is full
	// true false
	// 0
}

func ExampleTokenBucket() {
	bucket, err := protection.NewTokenBucket(protection.TokenBucketOptions{Name: "mail", Rate: 0.001, Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		_, err := bucket.Acquire(context.Background())
		if refusal, ok := errors.AsType[*protection.RejectedError](err); ok {
			fmt.Println(refusal, "- retry in", refusal.RetryAfter.Round(time.Minute))
			continue
		}
		fmt.Println("sent")
	}
	// Output:
	// sent
	// sent
	// protection: token bucket "mail" rejected the call: rate limit exceeded - retry in 17m0s
}

func ExampleChain() {
	limiter, err1 := protection.NewTokenBucket(protection.TokenBucketOptions{Name: "db", Rate: 1000})
	bulkhead, err2 := protection.NewBulkhead(protection.BulkheadOptions{Name: "db", MaxConcurrent: 8, MaxQueue: 8, MaxWait: 50 * time.Millisecond})
	breaker, err3 := protection.NewBreaker(protection.BreakerOptions{Name: "db"})
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	guard := protection.Chain(limiter, bulkhead, breaker)

	user, err := protection.DoValue(context.Background(), guard, func(context.Context) (string, error) {
		return "Ada", nil // read from the database
	})
	if errors.Is(err, protection.ErrRejected) {
		user, err = "somebody", nil // the database was not asked
	}
	fmt.Println(user, err)
	// Output: Ada <nil>
}

func ExampleDo() {
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{Name: "db", MaxConcurrent: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = protection.Do(context.Background(), bulkhead, func(ctx context.Context) error {
		// The slot is taken for as long as this function runs, so there is none for a call within.
		return protection.Do(ctx, bulkhead, func(context.Context) error { return nil })
	})
	fmt.Println(errors.Is(err, protection.ErrRejected), errors.Is(err, protection.ErrFull))
	// Output: true true
}
