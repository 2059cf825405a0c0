package main

import (
	"slices"
	"sync"
	"time"
)

// result is what became of the calls of one phase.
type result struct {
	p99           float64 // ms, from when a call was due: a late start counts as waiting
	calls, failed int
}

// start makes calls at a rate for a while, whether or not the earlier ones have come back (an open loop: users do not wait
// for each other). The channel gets the result when all have.
func start(perSecond int, length time.Duration, call func() error) <-chan result {
	done := make(chan result, 1)
	go func() {
		n := int(length.Seconds() * float64(perSecond))
		took, errs := make([]time.Duration, n), make([]error, n)
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range n {
			due := begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
			time.Sleep(time.Until(due))
			wg.Go(func() {
				errs[i] = call()
				took[i] = time.Since(due)
			})
		}
		wg.Wait()
		r := result{calls: n}
		for _, err := range errs {
			if err != nil {
				r.failed++
			}
		}
		slices.Sort(took)
		r.p99 = float64(took[n*99/100].Microseconds()) / 1000
		done <- r
	}()
	return done
}
