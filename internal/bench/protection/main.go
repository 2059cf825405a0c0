// Command protection measures the policies of Snowshed beside their peers, and ends with one line per ratio:
//
//	ratio NAME ours/peer VALUE
//
// Times are medians of short interleaved turns: of one operation on one goroutine, and of its processor time on two and on
// 64, which shows what contention costs. Equal times are perfect scaling.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/snowshed-go/snowshed/internal/bench/interleave"
)

func contestants() []interleave.Contestant {
	return []interleave.Contestant{
		ours("breaker", true, twoStep, breaker),
		ours("breaker-do", true, do, breaker),
		ours("breaker-exact", false, twoStep, breaker),
		peer("gobreaker", goBreaker),
		peer("failsafe", failsafeRun),
		peer("failsafe-two-step", failsafeTwoStep),
		peer("hystrix-go", hystrixDo),
		peer("go-zero", goZero),
		ours("open", true, twoStep, tripped),
		peer("gobreaker-open", goBreakerOpen),
		peer("failsafe-open", failsafeOpen),
		ours("bucket", true, twoStep, bucket),
		ours("bucket-allow", true, allow, bucket),
		ours("bucket-exact", false, twoStep, bucket),
		ours("bucket-empty", true, allow, empty),
		peer("x-time-rate", xTimeRate),
		peer("x-time-rate-empty", xTimeRateEmpty),
		peer("uber-ratelimit", uberRateLimit),
		ours("bulkhead", true, twoStep, bulkhead),
		peer("x-sync-semaphore", xSync),
		ours("chain", true, twoStep, chain),
		ours("chain-do", true, do, chain),
	}
}

// ratios are what the last lines compare.
func ratios() [][2]string {
	return [][2]string{
		{"breaker", "gobreaker"},
		{"breaker-do", "gobreaker"},
		{"breaker-exact", "gobreaker"},
		{"breaker", "failsafe-two-step"},
		{"breaker-do", "failsafe"},
		{"breaker", "hystrix-go"},
		{"breaker", "go-zero"},
		{"open", "gobreaker-open"},
		{"open", "failsafe-open"},
		{"bucket", "x-time-rate"},
		{"bucket-allow", "x-time-rate"},
		{"bucket-exact", "x-time-rate"},
		{"bucket-empty", "x-time-rate-empty"},
		{"bucket", "uber-ratelimit"},
		{"bulkhead", "x-sync-semaphore"},
		{"chain", "gobreaker"},
		{"chain-do", "gobreaker"},
	}
}

// crowds are the numbers of goroutines.
var crowds = []int{1, 2, 64}

func main() {
	rounds := flag.Int("rounds", 400, "turns of each contestant")
	turn := flag.Duration("turn", 300*time.Microsecond, "length of a turn")
	flag.Parse()
	if *rounds < 1 || *turn <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	report(*rounds, *turn)
}

func report(rounds int, turn time.Duration) {
	ns := map[string][]float64{}
	var last []interleave.Result
	for _, threads := range crowds {
		last = interleave.Run(contestants(), interleave.Options{Rounds: rounds, Turn: turn, Threads: threads})
		for _, r := range last {
			ns[r.Name] = append(ns[r.Name], r.NS)
		}
	}
	fmt.Printf("%-20s %12s %10s %10s %10s\n", "ns/op", "1 goroutine", "2", "64", "allocs/op")
	for _, r := range last {
		fmt.Printf("%-20s %12.1f %10.1f %10.1f %10.0f\n", r.Name, ns[r.Name][0], ns[r.Name][1], ns[r.Name][2], r.Allocs)
	}
	for _, pair := range ratios() {
		for i, threads := range crowds {
			fmt.Printf("ratio %s-%d %s/%s %.3f\n", pair[0], threads, pair[0], pair[1], ns[pair[0]][i]/ns[pair[1]][i])
		}
	}
	for _, r := range last {
		fmt.Printf("ratio flat-%s 64/1 %.2f\n", r.Name, ns[r.Name][2]/ns[r.Name][0])
	}
}
