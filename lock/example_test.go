package lock_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/snowshed-go/snowshed/lock"
)

// Ten callers want the same value at once. One run of the work serves them all.
func ExampleFlights() {
	ctx := context.Background()
	flights := lock.NewFlights[string]()
	everybodyIsHere := make(chan struct{})
	var wg sync.WaitGroup
	for range 10 {
		ticket, err := flights.Join(ctx, "user:42", func(context.Context) (string, error) {
			<-everybodyIsHere
			fmt.Println("the work runs")
			return "Ada", nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		wg.Go(func() {
			name, led, err := ticket.Wait(ctx, nil)
			if led {
				fmt.Println("the first caller's work gave", name, err)
			}
		})
	}
	close(everybodyIsHere)
	wg.Wait()
	fmt.Println(flights.Close(ctx))
	// Output:
	// the work runs
	// the first caller's work gave Ada <nil>
	// <nil>
}
