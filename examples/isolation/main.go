// Command isolation shows what a hanging dependency does to calls that have nothing to do with it, with and without
// islands. A service takes core calls, which need 20 ms, and calls for recommendations, which suddenly hang. It prints the
// p99 of the core calls before and during the hang, several times in turn, and the medians.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/snowshed-go/snowshed/protection"
)

const (
	slots    = 32                      // what the service can bear at once, however it is divided
	work     = 20 * time.Millisecond   // how long a call takes while all is well
	deadline = 1 * time.Second         // the execution timeout: how long a call that hangs holds its slot
	length   = 1500 * time.Millisecond // of one phase
	rounds   = 5
)

// gates are the policies in front of the two kinds of calls.
type gates struct{ core, recommendations protection.Policy }

// isolated gives each kind slots and a breaker of its own.
func isolated() (gates, error) {
	timeout, err := protection.NewExecutionTimeout(deadline)
	if err != nil {
		return gates{}, err
	}
	islands, err := protection.NewIslands(protection.IslandsOptions{Name: "shop", Islands: []protection.IslandOptions{
		{Class: "core", Inner: timeout, Bulkhead: protection.BulkheadOptions{MaxConcurrent: slots - 8, MaxQueue: slots}},
		{Class: "recommendations", Inner: timeout, Bulkhead: protection.BulkheadOptions{MaxConcurrent: 8}},
	}})
	if err != nil {
		return gates{}, err
	}
	core, err1 := islands.Isolate("core")
	recommendations, err2 := islands.Isolate("recommendations")
	return gates{core, recommendations}, errors.Join(err1, err2)
}

// shared lets both kinds take from the same slots.
func shared() (gates, error) {
	timeout, err1 := protection.NewExecutionTimeout(deadline)
	bulkhead, err2 := protection.NewBulkhead(protection.BulkheadOptions{Name: "shop", MaxConcurrent: slots, MaxQueue: slots})
	all := protection.Chain(bulkhead, timeout)
	return gates{all, all}, errors.Join(err1, err2)
}

func main() {
	fmt.Println("core calls: 400/s that take 20 ms; recommendations: 200/s that take 20 ms, or hang; 32 slots")
	compare("with islands", isolated)
	compare("without", shared)
}

// compare runs the phases in turn, so that a machine that slows down meanwhile slows both.
func compare(name string, build func() (gates, error)) {
	var before, during, ratios [rounds]float64
	failed, calls := 0, 0
	for i := range rounds {
		calm, storm := phase(build, false), phase(build, true)
		before[i], during[i], ratios[i] = calm.p99, storm.p99, storm.p99/calm.p99
		failed, calls = failed+storm.failed, calls+storm.calls
	}
	fmt.Printf("%-12s  core p99 %6.1f ms, while recommendations hang %6.1f ms: ratio %5.2f; core calls failed meanwhile: %.1f %%\n",
		name, median(before), median(during), median(ratios), 100*float64(failed)/float64(calls))
}

// phase runs one phase with gates of its own, and waits for all of its calls.
func phase(build func() (gates, error), hang bool) result {
	g, err := build()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	healthy := func(ctx context.Context) error { return wait(ctx, work) }
	recommend := healthy
	if hang {
		recommend = func(ctx context.Context) error { return wait(ctx, time.Hour) }
	}
	others := start(200, length, func() error { return protection.Do(ctx, g.recommendations, recommend) })
	core := start(400, length, func() error { return protection.Do(ctx, g.core, healthy) })
	<-others
	return <-core
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func median(v [rounds]float64) float64 {
	slices.Sort(v[:])
	return v[rounds/2]
}
