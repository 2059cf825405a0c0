package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// printTable puts the runs side by side.
func printTable(out io.Writer, runs []*result) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(*result) string) {
		fmt.Fprint(w, name, "\t")
		for _, r := range runs {
			fmt.Fprint(w, value(r), "\t")
		}
		fmt.Fprintln(w)
	}
	count := func(n int, of int) string { return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(max(of, 1))) }
	row("", func(r *result) string { return r.Name })
	row("processes", func(r *result) string { return strconv.Itoa(r.Processes) })
	row("requests", func(r *result) string { return strconv.Itoa(r.Requests) })
	row("answered", func(r *result) string { return count(r.OK, r.Requests) })
	row("of them stale", func(r *result) string { return count(r.Stale, r.Requests) })
	row("rejected", func(r *result) string { return count(r.Rejected, r.Requests) })
	row("errors", func(r *result) string { return count(r.Errors, r.Requests) })
	row("timeouts", func(r *result) string { return count(r.Timeouts, r.Requests) })
	row("p50 ms", func(r *result) string { return fmt.Sprintf("%.2f", r.P50) })
	row("p99 ms", func(r *result) string { return fmt.Sprintf("%.2f", r.P99) })
	row("max ms", func(r *result) string { return fmt.Sprintf("%.1f", r.Max) })
	row("slowest rejection ms", func(r *result) string { return fmt.Sprintf("%.1f", r.RejectedMax) })
	row("recovered after s", func(r *result) string { return fmt.Sprintf("%.0f", r.RecoveredAt) })
	row("database: loads", func(r *result) string { return strconv.FormatUint(r.Loads, 10) })
	row("database: most running", func(r *result) string { return strconv.Itoa(r.MaxRunning) })
	row("database: most queued", func(r *result) string { return strconv.Itoa(r.MaxQueued) })
	row("database: peak per s", func(r *result) string { return strconv.Itoa(r.PeakQPS) })
	if err := w.Flush(); err != nil {
		fmt.Fprintln(out, err)
	}
	for _, r := range runs {
		if r.FirstError != "" {
			fmt.Fprintf(out, "first error of %s: %s\n", r.Name, r.FirstError)
		}
	}
}
