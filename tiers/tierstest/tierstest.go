// Package tierstest checks that an implementation of a cache tier keeps what every tier promises.
package tierstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/tiers"
)

// Tier is what the suite needs of a tier. A Tier that also has Close(context.Context) error is closed under load.
type Tier interface {
	Get(ctx context.Context, key string) (tiers.Stored[Value], error)
	Set(ctx context.Context, key string, s tiers.Stored[Value]) error
	Delete(ctx context.Context, keys ...string) error
}

// Value is what the suite stores: kinds of fields that encodings are prone to confuse.
type Value struct {
	Text  string
	Count int64
	Bytes []byte
	List  []string
	Table map[string]int
	Inner *Value
	At    time.Time
}

// Env is where the suite runs.
type Env struct {
	// Open returns an empty tier. What it opens it closes by t.Cleanup.
	Open func(t *testing.T) Tier

	// Sleep lets this much time pass for the tier.
	Sleep func(d time.Duration)

	// In runs one test, in a synctest bubble for example. Nil runs it as it is.
	In func(t *testing.T, test func(t *testing.T))
}

// tolerance is how far a lifetime may be off.
const tolerance = 10 * time.Millisecond

// Run runs the suite.
func Run(t *testing.T, e Env) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(suite)
	}{
		{"an absent key is a miss", suite.absent},
		{"values come back as they were", suite.roundTrip},
		{"a lifetime is right to 10 ms", suite.lifetime},
		{"age counts from the start of the load", suite.age},
		{"a value without life is not stored", suite.lifeless},
		{"the last write stands", suite.overwrite},
		{"delete takes many keys, absent ones too", suite.deleteMany},
		{"any key keeps its own value", suite.oddKeys},
		{"short-lived values are never another key's", suite.ownValues},
		{"a ctx that has ended is its error", suite.cancelled},
		{"close under load", suite.closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			test := func(t *testing.T) { t.Helper(); c.test(suite{t, e.Open(t), e.Sleep}) }
			if e.In == nil {
				test(t)
			} else {
				e.In(t, test)
			}
		})
	}
}

// suite is one test of the suite on its way.
type suite struct {
	*testing.T
	tier  Tier
	sleep func(time.Duration)
}

func stored(v Value) tiers.Stored[Value] {
	return tiers.Stored[Value]{Value: v, TTL: time.Minute, Life: 2 * time.Minute}
}

func (t suite) set(key string, s tiers.Stored[Value]) {
	t.Helper()
	if err := t.tier.Set(t.Context(), key, s); err != nil {
		t.Fatalf("Set: %v", err)
	}
}

func (t suite) get(key string) tiers.Stored[Value] {
	t.Helper()
	s, err := t.tier.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return s
}

func (t suite) miss(key string) {
	t.Helper()
	s, err := t.tier.Get(t.Context(), key)
	if !errors.Is(err, tiers.ErrMiss) {
		t.Fatalf("Get: value %+v, error %v; want ErrMiss", s, err)
	}
	if !reflect.ValueOf(s).IsZero() {
		t.Fatalf("a miss came with a value: %+v", s)
	}
}

func (t suite) absent() { t.miss("absent") }

func (t suite) roundTrip() {
	at := time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.UTC)
	for i, v := range []Value{
		{},
		{Bytes: []byte{}, List: []string{}, Table: map[string]int{}, Inner: &Value{}},
		{Text: "\x00<>&\"\\ü€😀\u2028", Count: -1 << 63, Bytes: []byte{0, 0xff}, List: []string{""}, Table: map[string]int{"": 0}, At: at},
		{Inner: &Value{Inner: &Value{List: []string{"deep"}}}},
		{Text: "*"},
		{Text: "null", Bytes: []byte("null")},
		{Text: strings.Repeat("long ", 20_000)},
	} {
		key := fmt.Sprint("value", i)
		want := stored(v)
		want.LoadTime, want.Generation, want.Number = 1500*time.Microsecond, 1<<63+uint64(i), 1<<64-1
		t.set(key, want)
		got := t.get(key)
		got.Age = want.Age
		if !got.Value.At.Equal(want.Value.At) {
			t.Errorf("time %v came back as %v", want.Value.At, got.Value.At)
		}
		got.Value.At = want.Value.At
		if !reflect.DeepEqual(got, want) {
			t.Errorf("value %d came back as\n%+v, want\n%+v", i, got, want)
		}
	}
	t.set("none", tiers.Stored[Value]{NotFound: true, TTL: time.Second, Life: time.Second})
	if s := t.get("none"); !s.NotFound || !reflect.ValueOf(s.Value).IsZero() {
		t.Errorf("not-found came back as %+v", s)
	}
}

func (t suite) lifetime() {
	for i, d := range []time.Duration{time.Second, 1500 * time.Millisecond, 300 * time.Millisecond} {
		for j, offset := range []time.Duration{0, 950 * time.Millisecond} {
			t.sleep(offset)
			key := fmt.Sprint("life", i, j)
			start := time.Now()
			t.set(key, tiers.Stored[Value]{TTL: d / 2, Life: d})
			took := time.Since(start) // a remote tier may count from any moment of the call
			t.sleep(d - tolerance - time.Since(start))
			if s, err := t.tier.Get(t.Context(), key); err != nil && time.Since(start) < d-tolerance/2 { // a slow machine proves nothing
				t.Errorf("a life of %v ended early, after %v: %v (%+v)", d, time.Since(start), err, s)
			}
			t.sleep(took + d + tolerance - time.Since(start))
			t.miss(key)
		}
	}
}

func (t suite) age() {
	const old = 400 * time.Millisecond
	start := time.Now()
	t.set("k", tiers.Stored[Value]{TTL: time.Second, Life: 2 * time.Second, Age: old})
	took := time.Since(start)
	for _, at := range []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond} {
		t.sleep(at - time.Since(start))
		asked := time.Since(start)
		s := t.get("k")
		answered := time.Since(start)
		if s.Age < old+asked-took-time.Millisecond || s.Age > old+answered+tolerance {
			t.Errorf("asked %v to %v after a Set with age %v: age is %v", asked, answered, old, s.Age)
		}
	}
	t.sleep(took + 2*time.Second - old + tolerance - time.Since(start))
	t.miss("k")
}

func (t suite) lifeless() {
	t.set("k", tiers.Stored[Value]{TTL: time.Second, Life: time.Second, Age: time.Second - 500*time.Microsecond})
	t.miss("k")
	t.set("k", tiers.Stored[Value]{TTL: time.Second, Life: time.Second, Age: time.Hour})
	t.miss("k")
}

func (t suite) overwrite() {
	for i := range int64(20) {
		t.set("k", stored(Value{Count: i, Text: strings.Repeat("x", int(i%3)*5000)}))
		if s := t.get("k"); s.Value.Count != i {
			t.Fatalf("wrote %d, read %d", i, s.Value.Count)
		}
	}
	t.set("k", tiers.Stored[Value]{NotFound: true, TTL: time.Minute, Life: time.Minute})
	if !t.get("k").NotFound {
		t.Fatal("not-found did not replace the value")
	}
}

func (t suite) deleteMany() {
	keys := make([]string, 0, 300)
	for i := range 300 {
		keys = append(keys, fmt.Sprint("k", i))
		if i%3 != 0 {
			t.set(keys[i], stored(Value{Count: int64(i)}))
		}
	}
	t.set("kept", stored(Value{}))
	if err := t.tier.Delete(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	if err := t.tier.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		t.miss(key)
	}
	t.get("kept")
}

func (t suite) oddKeys() {
	keys := []string{
		"", " ", "%", "%%", "{", "}", "{}", "}{", "{a}b", "a{b}", "%7B", "%7b", "\x00", "\x00\x00", "a:c", ":", "\r\n",
		"é", "e\u0301", "😀", "\xff\xfe", "*", "a", "A", strings.Repeat("k", 64<<10), strings.Repeat("k", 64<<10-1),
	}
	for i, key := range keys {
		t.set(key, stored(Value{Count: int64(i)}))
	}
	for i, key := range keys {
		if s := t.get(key); s.Value.Count != int64(i) {
			t.Errorf("key %d of the list has the value of key %d", i, s.Value.Count)
		}
	}
	if err := t.tier.Delete(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		t.miss(key)
	}
}

func (t suite) ownValues() {
	const keys, workers = 10_000, 16
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < keys; i += workers {
				key := fmt.Sprint("own", i)
				s := tiers.Stored[Value]{Value: Value{Text: key}, TTL: 5 * time.Millisecond, Life: 5 * time.Millisecond}
				if err := t.tier.Set(t.Context(), key, s); err != nil {
					t.Errorf("Set: %v", err)
					return
				}
				for _, k := range []string{key, fmt.Sprint("own", (i+keys-workers)%keys), fmt.Sprint("own", (i*7)%keys)} {
					s, err := t.tier.Get(t.Context(), k)
					if err != nil && !errors.Is(err, tiers.ErrMiss) || err == nil && s.Value.Text != k {
						t.Errorf("key %q got %q, error %v", k, s.Value.Text, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

func (t suite) cancelled() {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := t.tier.Get(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	if err := t.tier.Set(ctx, "k", stored(Value{})); !errors.Is(err, context.Canceled) {
		t.Errorf("Set: %v", err)
	}
	if err := t.tier.Delete(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %v", err)
	}
	t.miss("k")
}

func (t suite) closed() {
	closer, ok := t.tier.(interface{ Close(context.Context) error })
	if !ok {
		return
	}
	var all sync.WaitGroup
	for w := range 64 {
		all.Go(func() {
			for i := range 100 {
				key := fmt.Sprint("k", w, i%10)
				for _, err := range []error{
					t.tier.Set(t.Context(), key, stored(Value{Text: key})),
					second(t.tier.Get(t.Context(), key)),
					t.tier.Delete(t.Context(), key),
				} {
					if err != nil && !errors.Is(err, tiers.ErrClosed) && !errors.Is(err, tiers.ErrMiss) {
						t.Errorf("while closing: %v", err)
						return
					}
				}
			}
		})
	}
	for range 2 {
		all.Go(func() {
			if err := closer.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
	for _, err := range []error{
		t.tier.Set(t.Context(), "k", stored(Value{})), second(t.tier.Get(t.Context(), "k")), t.tier.Delete(t.Context(), "k"),
	} {
		if !errors.Is(err, tiers.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
