package tiers

import (
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// The later start of a load makes the newer value, but only among values of one key that nothing has overtaken.
func TestSupersedes(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	v, other := viewOf[string, int](t, l), viewOf[string, int](t, l)
	entry := func(v *LocalView[string, int], key string, start int64) *Entry[string, int] {
		e := living(l, key, 0, start, time.Hour)
		assert.True(t, v.Put(e, v.Epoch(key)))
		return e
	}
	e := entry(v, "k", 10)
	assert.True(t, e.supersedes(entry(v, "other key", 20)), "another key")
	assert.True(t, e.supersedes(entry(other, "k", 20)), "another view")
	assert.True(t, e.supersedes(&Entry[int, int]{Start: 20}), "another type")
	assert.True(t, e.supersedes(&Entry[string, int]{Key: "k", Start: 10, view: v, era: e.era, hash: e.hash}), "as old")

	newer := entry(v, "k", 20)
	assert.True(t, newer.supersedes(e))
	assert.True(t, !e.supersedes(newer), "newer")
	v.Invalidate("k")
	assert.True(t, e.supersedes(newer), "newer, but overtaken by an invalidation")
	newer = entry(v, "k", 20)
	assert.True(t, !e.supersedes(newer))
	v.Reset()
	assert.True(t, e.supersedes(newer), "newer, but of another era")
}
