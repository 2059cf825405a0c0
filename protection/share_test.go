package protection

import (
	"flag"
	"strconv"
)

// Share returns how many of n rounds fall to this run of a test: -count=20 does them once in all, not twenty times.
func Share(n int) int {
	count, err := strconv.Atoi(flag.Lookup("test.count").Value.String())
	if err != nil || count < 1 {
		return n
	}
	return max(1, n/count)
}
