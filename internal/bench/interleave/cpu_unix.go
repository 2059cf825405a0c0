//go:build unix

package interleave

import (
	"syscall"
	"time"
)

// cpu returns the processor time that this process has used, on all threads. What other processes take does not count.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
