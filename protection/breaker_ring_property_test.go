package protection

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// naive is a list of all that was counted, and the step that each counter was used for last.
type naive struct {
	width int64
	all   []counted
	last  [buckets][kinds]int64 // plus one
}

type counted struct {
	step int64
	kind kind
}

// add drops what comes too late for its counter, as the ring does: a newer step uses it already.
func (n *naive) add(now int64, k kind) {
	step := now / n.width
	if last := &n.last[step%buckets][k]; step+1 >= *last {
		*last = step + 1
		n.all = append(n.all, counted{step, k})
	}
}

func (n *naive) sum(now int64) (c counts) {
	for _, e := range n.all {
		if age := now/n.width - e.step; age >= 0 && age < buckets {
			c[e.kind]++
		}
	}
	return c
}

// TestRingCountsAsANaiveListDoes compares all counters with a list of all calls, over many laps and long silences, with
// writers that come late.
func TestRingCountsAsANaiveListDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.Int64Range(1, 1e11).Draw(t, "window"))
		r := newRing(window, 1)
		model := naive{width: max(int64(window)/10, 1e6)}
		now := rapid.Int64Range(0, 20*model.width).Draw(t, "start")
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now += rapid.Int64Range(0, 2*model.width).Draw(t, "pause")
			if rapid.IntRange(0, 20).Draw(t, "silence") == 0 {
				now += rapid.Int64Range(0, 30*model.width).Draw(t, "long pause")
			}
			at := now
			if rapid.IntRange(0, 5).Draw(t, "late") == 0 {
				at = max(0, now-rapid.Int64Range(0, 25*model.width).Draw(t, "by"))
			}
			k := kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind"))
			r.add(at, k)
			model.add(at, k)
			for _, look := range []int64{now, now + model.width, now + 9*model.width, now + 10*model.width, now + 31*model.width} {
				if got, want := r.sum(look), model.sum(look); got != want {
					t.Fatalf("at %d: %v, want %v", look, got, want)
				}
			}
		}
	})
}

// The steps of a ring are a division, done as a multiplication.
func TestRingStepIsTheQuotient(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{1, 10 * time.Millisecond, time.Second, 10 * time.Second, 7 * time.Hour} {
		r := newRing(window, 1)
		for _, step := range []int64{1, 2, 3, 1_000, 1 << 20} { // borders, where the last bit counts
			assert.Equal(t, r.step(step*r.width), step)
			assert.Equal(t, r.step(step*r.width-1), step-1)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newRing(time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "window")), 1)
		now := rapid.Int64Range(0, math.MaxInt64).Draw(t, "now")
		if rapid.Bool().Draw(t, "at a border") {
			now = max(0, now/r.width*r.width-rapid.Int64Range(0, 1).Draw(t, "before"))
		}
		if got := r.step(now); got != now/r.width {
			t.Fatalf("%d / %d: %d, want %d", now, r.width, got, now/r.width)
		}
	})
}

func TestRingKeepsItsCountsInAnotherWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := newRing(time.Duration(rapid.Int64Range(1e7, 1e10).Draw(t, "from")), 4)
		to := newRing(time.Duration(rapid.Int64Range(1e7, 1e10).Draw(t, "to")), 1)
		now := int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "calls") {
			now += rapid.Int64Range(0, from.width).Draw(t, "pause")
			from.lanes[rapid.IntRange(0, 3).Draw(t, "lane")].cells[from.step(now)%buckets][failure].add(uint32(from.step(now)), 1)
		}
		from.copyTo(to, now)
		had, has := from.sum(now)[failure], to.sum(now)[failure]
		if has > had || to.width >= from.width && has != had {
			t.Fatalf("%d of %d, from %v to %v", has, had, from.width, to.width)
		}
	})
}

// A reader skips what a lap of 2^32 steps ago was counted, and a writer restarts it.
func TestCellTellsLapsApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, then uint32 }{
		{0, 1}, {7, 17}, {math.MaxUint32, 0}, {math.MaxUint32 - 5, 4}, {5, 1 << 31}, {5, 1<<31 + 10}, {1 << 31, 3}, {5, 1<<32 - laggard - 1},
	} {
		var x cell
		x.add(c.first, 3)
		assert.Equal(t, x.load(c.first), 3, c)
		x.add(c.then, 2)
		assert.Equal(t, x.load(c.then), 2, c)
		assert.Equal(t, x.load(c.then+9), 2, c)
		assert.Equal(t, x.load(c.then+10), 0, c)
		x.add(c.then-10, 1)
		assert.Equal(t, x.load(c.then), 2, "late: ", c)
	}
}

func TestCellThatIsFullStaysWithinItsStep(t *testing.T) {
	t.Parallel()
	var c cell
	c.add(5, fullCell)
	c.add(5, 1)
	assert.Equal(t, c.load(5), fullCell)
	assert.Equal(t, c.load(6), fullCell)
	c.add(15, 1)
	assert.Equal(t, c.load(15), 1)
}

// See cep21/circuit#159: writers that arrive together after a silence must not undo each other's counts.
func TestRingWritersAfterASilence_stress(t *testing.T) {
	t.Parallel()
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	r := newRing(10*time.Second, 1)
	for round := range rounds {
		now := int64(round) * int64(time.Hour)
		var start, wg sync.WaitGroup
		start.Add(1)
		for range 16 {
			wg.Go(func() {
				start.Wait()
				r.add(now+rand.Int64N(2)*r.width, failure)
			})
		}
		start.Done()
		wg.Wait()
		assert.Equal(t, r.sum(now + 2*r.width)[failure], 16)
	}
}

func TestRingSpreadsGoroutines(t *testing.T) {
	t.Parallel()
	r := newRing(10*time.Second, 8)
	var ready, wg sync.WaitGroup
	ready.Add(512)
	for range 512 {
		wg.Go(func() {
			ready.Done()
			ready.Wait() // all of them have a stack at this moment
			r.add(0, success)
		})
	}
	wg.Wait()
	for i := range r.lanes {
		assert.True(t, r.lanes[i].cells[0][success].load(0) > 0, "lane ", i, " is never used")
	}
	assert.Equal(t, r.sum(0)[success], 512)
}
