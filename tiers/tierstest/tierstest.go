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
	if e.In == nil {
		e.In = func(t *testing.T, test func(t *testing.T)) { t.Helper(); test(t) }
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, Env)
	}{
		{"an absent key is a miss", absent},
		{"values come back as they were", roundTrip},
		{"a lifetime is right to 10 ms", lifetime},
		{"age counts from the start of the load", age},
		{"a value without life is not stored", lifeless},
		{"the last write stands", overwrite},
		{"delete takes many keys, absent ones too", deleteMany},
		{"any key keeps its own value", oddKeys},
		{"short-lived values are never another key's", ownValues},
		{"a ctx that has ended is its error", cancelled},
		{"close under load", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.In(t, func(t *testing.T) { c.test(t, e) })
		})
	}
}

func stored(v Value) tiers.Stored[Value] {
	return tiers.Stored[Value]{Value: v, TTL: time.Minute, Life: 2 * time.Minute}
}

func set(t *testing.T, tier Tier, key string, s tiers.Stored[Value]) {
	t.Helper()
	if err := tier.Set(t.Context(), key, s); err != nil {
		t.Fatalf("Set: %v", err)
	}
}

func get(t *testing.T, tier Tier, key string) tiers.Stored[Value] {
	t.Helper()
	s, err := tier.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return s
}

func miss(t *testing.T, tier Tier, key string) {
	t.Helper()
	s, err := tier.Get(t.Context(), key)
	if !errors.Is(err, tiers.ErrMiss) {
		t.Fatalf("Get: value %+v, error %v; want ErrMiss", s, err)
	}
	if !reflect.ValueOf(s).IsZero() {
		t.Fatalf("a miss came with a value: %+v", s)
	}
}

func absent(t *testing.T, e Env) { miss(t, e.Open(t), "absent") }

func roundTrip(t *testing.T, e Env) {
	tier := e.Open(t)
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
		want.LoadTime, want.Generation, want.Number = 1500*time.Microsecond, 1<<63+uint64(i), 1<<64-1 //nolint:gosec // i is small
		set(t, tier, key, want)
		got := get(t, tier, key)
		got.Age = want.Age
		if !got.Value.At.Equal(want.Value.At) {
			t.Errorf("time %v came back as %v", want.Value.At, got.Value.At)
		}
		got.Value.At = want.Value.At
		if !reflect.DeepEqual(got, want) {
			t.Errorf("value %d came back as\n%+v, want\n%+v", i, got, want)
		}
	}
	set(t, tier, "none", tiers.Stored[Value]{NotFound: true, TTL: time.Second, Life: time.Second})
	if s := get(t, tier, "none"); !s.NotFound || !reflect.ValueOf(s.Value).IsZero() {
		t.Errorf("not-found came back as %+v", s)
	}
}

func lifetime(t *testing.T, e Env) {
	tier := e.Open(t)
	for i, d := range []time.Duration{time.Second, 1500 * time.Millisecond, 300 * time.Millisecond} {
		for j, offset := range []time.Duration{0, 950 * time.Millisecond} {
			e.Sleep(offset)
			key := fmt.Sprint("life", i, j)
			start := time.Now()
			set(t, tier, key, tiers.Stored[Value]{TTL: d / 2, Life: d})
			took := time.Since(start) // a remote tier may count from any moment of the call
			e.Sleep(d - tolerance - time.Since(start))
			if s, err := tier.Get(t.Context(), key); err != nil && time.Since(start) < d-tolerance/2 { // a slow machine proves nothing
				t.Errorf("a life of %v ended early, after %v: %v (%+v)", d, time.Since(start), err, s)
			}
			e.Sleep(took + d + tolerance - time.Since(start))
			miss(t, tier, key)
		}
	}
}

func age(t *testing.T, e Env) {
	tier := e.Open(t)
	const old = 400 * time.Millisecond
	start := time.Now()
	set(t, tier, "k", tiers.Stored[Value]{TTL: time.Second, Life: 2 * time.Second, Age: old})
	took := time.Since(start)
	for _, at := range []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond} {
		e.Sleep(at - time.Since(start))
		asked := time.Since(start)
		s := get(t, tier, "k")
		answered := time.Since(start)
		if s.Age < old+asked-took-time.Millisecond || s.Age > old+answered+tolerance {
			t.Errorf("asked %v to %v after a Set with age %v: age is %v", asked, answered, old, s.Age)
		}
	}
	e.Sleep(took + 2*time.Second - old + tolerance - time.Since(start))
	miss(t, tier, "k")
}

func lifeless(t *testing.T, e Env) {
	tier := e.Open(t)
	set(t, tier, "k", tiers.Stored[Value]{TTL: time.Second, Life: time.Second, Age: time.Second - 500*time.Microsecond})
	miss(t, tier, "k")
	set(t, tier, "k", tiers.Stored[Value]{TTL: time.Second, Life: time.Second, Age: time.Hour})
	miss(t, tier, "k")
}

func overwrite(t *testing.T, e Env) {
	tier := e.Open(t)
	for i := range int64(20) {
		set(t, tier, "k", stored(Value{Count: i, Text: strings.Repeat("x", int(i%3)*5000)}))
		if s := get(t, tier, "k"); s.Value.Count != i {
			t.Fatalf("wrote %d, read %d", i, s.Value.Count)
		}
	}
	set(t, tier, "k", tiers.Stored[Value]{NotFound: true, TTL: time.Minute, Life: time.Minute})
	if !get(t, tier, "k").NotFound {
		t.Fatal("not-found did not replace the value")
	}
}

func deleteMany(t *testing.T, e Env) {
	tier := e.Open(t)
	var keys []string
	for i := range 300 {
		keys = append(keys, fmt.Sprint("k", i))
		if i%3 != 0 {
			set(t, tier, keys[i], stored(Value{Count: int64(i)}))
		}
	}
	set(t, tier, "kept", stored(Value{}))
	if err := tier.Delete(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	if err := tier.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		miss(t, tier, key)
	}
	get(t, tier, "kept")
}

func oddKeys(t *testing.T, e Env) {
	tier := e.Open(t)
	keys := []string{
		"", " ", "%", "%%", "{", "}", "{}", "}{", "{a}b", "a{b}", "%7B", "%7b", "\x00", "\x00\x00", "a:c", ":", "\r\n",
		"é", "e\u0301", "😀", "\xff\xfe", "*", "a", "A", strings.Repeat("k", 64<<10), strings.Repeat("k", 64<<10-1),
	}
	for i, key := range keys {
		set(t, tier, key, stored(Value{Count: int64(i)}))
	}
	for i, key := range keys {
		if s := get(t, tier, key); s.Value.Count != int64(i) {
			t.Errorf("key %d of the list has the value of key %d", i, s.Value.Count)
		}
	}
	if err := tier.Delete(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		miss(t, tier, key)
	}
}

func ownValues(t *testing.T, e Env) {
	tier := e.Open(t)
	const keys, workers = 10_000, 16
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < keys; i += workers {
				key := fmt.Sprint("own", i)
				s := tiers.Stored[Value]{Value: Value{Text: key}, TTL: 5 * time.Millisecond, Life: 5 * time.Millisecond}
				if err := tier.Set(t.Context(), key, s); err != nil {
					t.Errorf("Set: %v", err)
					return
				}
				for _, k := range []string{key, fmt.Sprint("own", (i+keys-workers)%keys), fmt.Sprint("own", (i*7)%keys)} {
					s, err := tier.Get(t.Context(), k)
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

func cancelled(t *testing.T, e Env) {
	tier := e.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tier.Get(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	if err := tier.Set(ctx, "k", stored(Value{})); !errors.Is(err, context.Canceled) {
		t.Errorf("Set: %v", err)
	}
	if err := tier.Delete(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %v", err)
	}
	miss(t, tier, "k")
}

func closed(t *testing.T, e Env) {
	tier := e.Open(t)
	closer, ok := tier.(interface{ Close(context.Context) error })
	if !ok {
		return
	}
	var all sync.WaitGroup
	for w := range 64 {
		all.Go(func() {
			for i := range 100 {
				key := fmt.Sprint("k", w, i%10)
				for _, err := range []error{
					tier.Set(t.Context(), key, stored(Value{Text: key})),
					second(tier.Get(t.Context(), key)),
					tier.Delete(t.Context(), key),
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
		tier.Set(t.Context(), "k", stored(Value{})), second(tier.Get(t.Context(), "k")), tier.Delete(t.Context(), "k"),
	} {
		if !errors.Is(err, tiers.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
