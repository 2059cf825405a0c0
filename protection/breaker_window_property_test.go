package protection

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWindowCountsAsANaiveListDoes compares the ring with a list of all calls, over several laps and long silences.
func TestWindowCountsAsANaiveListDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type call struct {
			step int64
			bad  bool
		}
		w := newWindow(time.Duration(rapid.Int64Range(1, 1e10).Draw(t, "length")))
		now := time.Duration(0)
		n := rapid.IntRange(1, 100).Draw(t, "calls")
		all := make([]call, 0, n)
		for range n {
			now += time.Duration(rapid.Int64Range(0, 3).Draw(t, "steps"))*w.width + time.Duration(rapid.Int64Range(0, int64(w.width)).Draw(t, "part"))
			if rapid.IntRange(0, 20).Draw(t, "silence") == 0 {
				now += buckets * w.width * time.Duration(rapid.Int64Range(1, 3).Draw(t, "laps"))
			}
			bad := rapid.Bool().Draw(t, "bad")
			w.add(now, bad)
			all = append(all, call{int64(now / w.width), bad})

			var total, failed uint64
			for _, c := range all {
				if c.step > int64(now/w.width)-buckets {
					total++
					if c.bad {
						failed++
					}
				}
			}
			if gotTotal, gotBad := w.sum(now); gotTotal != total || gotBad != failed {
				t.Fatalf("at %v: %d calls, %d bad; want %d, %d", now, gotTotal, gotBad, total, failed)
			}
		}
	})
}
