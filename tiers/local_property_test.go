package tiers

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// model is the tier without its cleverness: a map of what was put, and of what overtook it.
type model struct {
	values map[string]modelValue
	epochs map[string]Epoch
	moved  map[string]int // how often a key was invalidated
	resets int
}

type modelValue struct {
	value         int
	start         int64
	moved, resets int
}

func (m *model) current(key string, v modelValue) bool {
	return v.moved == m.moved[key] && v.resets == m.resets
}

// A read returns the newest value that nothing has overtaken, or it misses: never anything else, whatever was evicted,
// displaced or refused in between.
func TestLocalAgreesWithAMap(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{MaxBytes: MinMaxBytes, EpochStripes: 1 << 10})
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := viewOf[string, []int](t, l)
		v.mask = rapid.SampledFrom([]uint64{0, 1, 7, v.mask}).Draw(rt, "mask")
		m := &model{values: map[string]modelValue{}, epochs: map[string]Epoch{}, moved: map[string]int{}}
		taken := map[string]modelValue{} // the state of the model when an epoch was taken
		key := rapid.SampledFrom(keys)
		next := 0
		actions := map[string]func(*rapid.T){
			"epoch": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				m.epochs[k] = v.Epoch(k)
				taken[k] = modelValue{moved: m.moved[k], resets: m.resets}
			},
			"put": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				at, ok := m.epochs[k]
				if !ok {
					rt.Skip("no load has begun")
				}
				next++
				size := rapid.SampledFrom([]int{1, 10, 400, 4_000, 9_000}).Draw(rt, "size")
				start := rapid.Int64Range(1, 50).Draw(rt, "start")
				e := living(l, k, append(make([]int, size), next), start, time.Hour)
				before := v.Get(k)
				stored := v.Put(e, at)

				put := taken[k]
				put.value, put.start = next, start
				switch {
				case !m.current(k, put):
					if stored {
						rt.Fatal("a value was stored that an invalidation had overtaken")
					}
				case before != nil && before.Start > start:
					if stored {
						rt.Fatal("an older value was stored")
					}
				case stored:
					m.values[k] = put
				case !stored && v.Get(k) == nil:
					delete(m.values, k) // too large
				default:
					rt.Fatal("a value was refused for no reason")
				}
			},
			"invalidate": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				v.Invalidate(k)
				m.moved[k]++
			},
			"reset": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "rarely") == 0 {
					v.Reset()
					m.resets++
				}
			},
			"read": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				want, had := m.values[k]
				for name, e := range map[string]*Entry[string, []int]{"Fresh": v.Fresh(k), "Get": v.Get(k)} {
					if e == nil {
						continue
					}
					if !had || !m.current(k, want) {
						rt.Fatalf("%s found a value that should have gone", name)
					}
					if got := e.Value[len(e.Value)-1]; got != want.value || e.Key != k {
						rt.Fatalf("%s of %s found value %d of %s, want %d", name, k, got, e.Key, want.value)
					}
				}
			},
			"": func(rt *rapid.T) {
				l.settled()
				if s := l.Stats(); s.Bytes > s.MaxBytes {
					rt.Fatalf("%d bytes of %d", s.Bytes, s.MaxBytes)
				}
			},
		}
		for range 5 {
			rt.Repeat(actions)
		}
		consistentView(rt, v)
		v.Reset()
	})
}

func consistentView[K comparable, V any](t *rapid.T, v *LocalView[K, V]) {
	v.local.settled()
	for i := range v.hot {
		e := v.hot[i].Load()
		if e == nil {
			continue
		}
		if stored := v.local.find(e.hash) == held(e); stored == e.loose.Load() {
			t.Fatalf("an entry that is stored (%v) and loose (%v)", stored, e.loose.Load())
		}
	}
	if got, most := v.local.loose.Load(), v.local.looseMax; got < 0 || got > most {
		t.Fatalf("%d loose bytes of %d", got, most)
	}
}

// The model in its simplest form, to see that the test above can fail.
func TestModelKnowsWhatIsOvertaken(t *testing.T) {
	t.Parallel()
	m := &model{moved: map[string]int{}}
	v := modelValue{value: 1}
	assert.True(t, m.current("k", v))
	m.moved["k"]++
	assert.True(t, !m.current("k", v))
}
