//go:build unix

// Command mutants takes protective mechanisms out of the code, one patch at a time, and requires that a test notices.
//
// It works in a temporary git worktree of a snapshot of the tree, uncommitted and untracked files included (-head: of the
// last commit), and reads the patches testdata/mutants/*.patch there. A patch begins with three headers:
//
//	# Invariant: I7
//	# Removes: the age check before a stale answer
//	# Test: go test -race -run '^TestX$' ./cache
//
// For each patch the test is run as it is, where it must pass and must have run, and then with the patch applied, where it
// must fail. A build failure is an error, not a failed test. A hang is an error too, unless the patch has the header
// "# Timeout: red". The exit code is 1 when a mutant survives or is broken, or when none was run.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.only, "only", "*", "run the mutants whose names match this `glob`")
	flag.BoolVar(&o.head, "head", false, "leave uncommitted changes out")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "limit for one run of a test")
	flag.Parse()
	o.dir = "."
	o.out = os.Stdout
	o.requireAll = os.Getenv("SNOWSHED_REQUIRE_ALL") == "1"

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, &o)
	stop()
	os.Exit(code)
}
