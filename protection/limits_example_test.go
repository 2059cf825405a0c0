package protection_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

func ExampleTokenBucket_SetRate() {
	bucket, err := protection.NewTokenBucket(protection.TokenBucketOptions{Rate: 0.001, Burst: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bucket.AllowN(60), bucket.AllowN(60))
	if err := bucket.SetRate(0.002); err != nil { // the 40 that are left stay
		fmt.Println(err)
	}
	fmt.Println(bucket.AllowN(40), bucket.AllowN(1))
	// Output:
	// true false
	// true false
}

func ExampleTokenBucket_Wait() {
	bucket, err := protection.NewTokenBucket(protection.TokenBucketOptions{Rate: 20, Burst: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bucket.Wait(context.Background())) // at once
	fmt.Println(bucket.Wait(context.Background())) // after 50 ms

	if err := bucket.SetRate(1.0 / (24 * 60 * 60)); err != nil { // one a day
		fmt.Println(err)
	}
	bucket.AllowN(1) // if 50 ms more have passed, there is one again
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	fmt.Println(errors.Is(bucket.Wait(ctx), protection.ErrLimited)) // at once: ctx will not live until tomorrow
	// Output:
	// <nil>
	// <nil>
	// true
}

// The dependency has just come back with cold caches: begin with a third of the rate.
func ExampleTokenBucket_Restart() {
	bucket, err := protection.NewTokenBucket(protection.TokenBucketOptions{Rate: 300, Burst: 30, WarmUp: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	observer := observe.Func(func(e observe.Event) {
		if e.Kind == observe.BreakerClosed {
			bucket.Restart()
		}
	})
	observer(observe.Event{Kind: observe.BreakerClosed}) // as a breaker with this Observer does
	fmt.Println(bucket.AllowN(10), bucket.AllowN(10))
	// Output: true false
}

func ExampleLeakyBucket() {
	mail, err := protection.NewLeakyBucket(protection.LeakyBucketOptions{Name: "mail", Rate: 100, MaxQueue: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	start := time.Now()
	for range 3 {
		if _, err := mail.Acquire(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("three calls are 20 ms apart:", time.Since(start) >= 20*time.Millisecond)
	// Output: three calls are 20 ms apart: true
}
