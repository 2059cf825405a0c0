package size_test

import (
	"testing"
	"testing/quick"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/internal/size"
)

type mixed struct {
	A string
	B []byte
	C map[string][]int16
	D *mixed
	E [3]*string
	F []map[uint8]string
	G struct {
		H float64
		I []*mixed
	}
}

// No value makes the estimate fail, and none takes less than the type itself.
func TestAnyValueHasASize(t *testing.T) {
	t.Parallel()
	atLeast := func(n, least int) bool { return n >= least }
	for name, f := range map[string]any{
		"mixed":   func(v mixed) bool { return atLeast(size.Of(v), int(unsafe.Sizeof(v))) },
		"pointer": func(v *mixed) bool { return atLeast(size.Of(v), int(unsafe.Sizeof(v))) },
		"slice": func(v []mixed) bool {
			return atLeast(size.Of(v), int(unsafe.Sizeof(v))+cap(v)*int(unsafe.Sizeof(mixed{})))
		},
		"map": func(v map[string]map[int]string) bool { return atLeast(size.Of(v), int(unsafe.Sizeof(v))+len(v)) },
		"strings": func(v []string) bool {
			n := 0
			for _, s := range v {
				n += len(s)
			}
			return atLeast(size.Of(v), n)
		},
	} {
		if err := quick.Check(f, &quick.Config{MaxCount: 40}); err != nil {
			t.Error(name, err)
		}
	}
}

// A graph of nodes with random links, cycles included, takes each of its nodes once.
func TestGraphsCountEachNodeOnce(t *testing.T) {
	t.Parallel()
	type node struct {
		links []*node
		_     [5]int64
	}
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]node, rapid.IntRange(1, 30).Draw(t, "nodes"))
		ptrs := make([]*node, len(nodes))
		pick := rapid.IntRange(0, len(nodes)-1)
		for i := range nodes {
			ptrs[i] = new(node)
		}
		for _, n := range ptrs {
			for range rapid.IntRange(0, 4).Draw(t, "links") {
				n.links = append(n.links, ptrs[pick.Draw(t, "to")])
			}
		}
		want := 3 * word
		want += cap(ptrs) * word
		for _, n := range ptrs {
			want += int(unsafe.Sizeof(node{})) + cap(n.links)*word
		}
		if got := size.Of(ptrs); got != want {
			t.Fatalf("%d nodes take %d, want %d", len(nodes), got, want)
		}
	})
}
