package protection_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

func newGroup[K comparable](t *testing.T, o protection.GroupOptions[K]) *protection.Group[K] {
	t.Helper()
	g, err := protection.NewGroup(o)
	assert.NoError(t, err)
	return g
}

func TestGroupBreaksEachKeyAlone(t *testing.T) {
	t.Parallel()
	g := newGroup(t, protection.GroupOptions[string]{
		Breaker: protection.BreakerOptions{Name: "hosts", MinCalls: 2},
		Label:   func(key string) string { return "host " + strings.ToUpper(key) },
	})
	calls(t, g.Get("a"), 3, protection.Failure)
	calls(t, g.Get("b"), 3, protection.Success)
	assert.Equal(t, refused(t, g.Get("a"), protection.ErrOpen).Name, "host A")
	calls(t, g.Get("b"), 1, protection.Success)
	kept := g.Get("b")
	assert.True(t, g.Get("b") == kept)
	states := map[string]protection.State{}
	for key, s := range g.Snapshots {
		states[key] = s.State
	}
	assert.Equal(t, states, map[string]protection.State{"a": protection.Open, "b": protection.Closed})
	for range g.Snapshots {
		break
	}
}

// See fedify#916: keys that come from outside must not fill the memory, nor push out a breaker that is open.
func TestGroupIsBoundedUnderRandomKeys(t *testing.T) {
	t.Parallel()
	keys := 1_000_000
	if testing.Short() || protection.RaceEnabled {
		keys = 50_000
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, protection.GroupOptions[int]{Breaker: protection.BreakerOptions{MinCalls: 1}, MaxKeys: 100})
		for key := range 10 {
			calls(t, g.Get(-1-key), 2, protection.Failure)
		}
		for key := range keys {
			if key%(keys/100) == 0 {
				advance(12 * time.Second) // so that most are idle, and there is something to evict
			}
			permit, err := g.Get(key).Acquire(t.Context())
			assert.NoError(t, err)
			permit.Done(protection.Success)
		}
		assert.Equal(t, g.Len(), 100)
		for key := range 10 {
			assert.Equal(t, g.Get(-1-key).State(), protection.Open)
		}
	})
}

func TestGroupEvictsOnlyWhatIsClosedCleanAndIdle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, b *protection.Breaker)
		wait    time.Duration
		goes    bool
	}{
		"idle":                    {func(*testing.T, *protection.Breaker) {}, 12 * time.Second, true},
		"just asked for":          {func(*testing.T, *protection.Breaker) {}, 9 * time.Second, false},
		"open":                    {func(_ *testing.T, b *protection.Breaker) { b.ForceOpen("test", time.Time{}) }, time.Hour, false},
		"forced closed":           {func(_ *testing.T, b *protection.Breaker) { b.ForceClosed(time.Time{}) }, time.Hour, false},
		"forced closed, and over": {func(_ *testing.T, b *protection.Breaker) { b.ForceClosed(time.Now()) }, time.Hour, true},
		"a call came back lately": {func(t *testing.T, b *protection.Breaker) {
			t.Helper()
			permit := acquire(t, b)
			time.AfterFunc(11*time.Second, func() { permit.Done(protection.Failure) })
		}, 12 * time.Second, false},
		"a call is out": {func(t *testing.T, b *protection.Breaker) {
			t.Helper()
			permit := acquire(t, b)
			time.AfterFunc(2*time.Hour, func() { permit.Done(protection.Failure) })
		}, time.Hour, false},
		"a call is out, after an update": {func(t *testing.T, b *protection.Breaker) {
			t.Helper()
			assert.NoError(t, b.Update(protection.BreakerOptions{OverdueAfter: time.Hour, MinCalls: 1}))
			assert.NoError(t, b.Update(protection.BreakerOptions{}))
			permit := acquire(t, b)
			time.AfterFunc(2*time.Hour, func() { permit.Done(protection.Failure) })
		}, time.Hour, false},
		"a call was out": {func(t *testing.T, b *protection.Breaker) {
			t.Helper()
			calls(t, b, 100, protection.Success)
		}, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, protection.GroupOptions[string]{MaxKeys: 1})
				first := g.Get("first")
				c.prepare(t, first)
				advance(c.wait)
				g.Get("second")
				assert.Equal(t, g.Len(), 1)
				assert.Equal(t, g.Get("first") != first, c.goes)
			})
		})
	}
}

func TestGroupKeysWithoutAPlaceAreNotRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		g := newGroup(t, protection.GroupOptions[string]{Breaker: protection.BreakerOptions{MinCalls: 2, Observer: &r}, MaxKeys: 1})
		calls(t, g.Get("first"), 1, protection.Success)
		for i := range 10 {
			calls(t, g.Get(fmt.Sprint("more ", i)), 1, protection.Failure)
		}
		assert.Equal(t, r.told(), []observe.Kind{observe.BreakerOpened}, "but it is told")
		calls(t, g.Get("first"), 2, protection.Failure)
		refused(t, g.Get("first"), protection.ErrOpen)
	})
}

func TestGroupOfKeysThatEqualNothing(t *testing.T) {
	t.Parallel()
	g := newGroup(t, protection.GroupOptions[float64]{})
	for range 100 {
		calls(t, g.Get(math.NaN()), 1, protection.Success)
	}
	assert.Equal(t, g.Len(), 0)
}

func TestGroupConcurrently_stress(t *testing.T) {
	t.Parallel()
	g := newGroup(t, protection.GroupOptions[int]{Breaker: protection.BreakerOptions{Window: 10 * time.Millisecond}, MaxKeys: 16})
	together(8, func(i int) {
		for n := range 2000 {
			permit, err := g.Get((n * (i + 1)) % 64).Acquire(t.Context())
			if err == nil {
				permit.Done(protection.Outcome(n%3 + 1))
			}
			if g.Len() > 16 {
				t.Error("too many")
			}
		}
	})
}
