package tiers

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// hashTag returns the part of a key that Redis hashes, by the rule of the cluster specification.
func hashTag(key string) string {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			return key[i+1 : i+1+n]
		}
	}
	return key
}

func checkRedisKey(t interface {
	Helper()
	Fatalf(string, ...any)
}, key, other string,
) {
	t.Helper()
	const base = "prefix:cache:"
	rk := redisKey(base, key)
	tag := rk[len(base)+1 : len(rk)-1]
	if hashTag(rk) != tag || hashTag(rk+":c") != tag {
		t.Fatalf("key %q: the tag of %q is not all of it", key, rk)
	}
	if key != other && rk == redisKey(base, other) {
		t.Fatalf("keys %q and %q share %q", key, other, rk)
	}
}

func TestRedisKeysAreInjectiveAndOneTag(t *testing.T) {
	parts := rapid.SampledFrom([]string{"", "%", "{", "}", "%7B", "%7D", "%25", "a", "\x00", ":c", "ü", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		key := strings.Join(rapid.SliceOfN(parts, 0, 4).Draw(t, "key"), "")
		checkRedisKey(t, key, strings.Join(rapid.SliceOfN(parts, 0, 4).Draw(t, "other"), ""))
	})
}

func FuzzRedisKey(f *testing.F) {
	f.Add("", "%")
	f.Add("{", "%7B")
	f.Fuzz(func(t *testing.T, key, other string) { checkRedisKey(t, key, other) })
}

func TestKeyEncoder(t *testing.T) {
	type (
		name string
		id   int64
	)
	assert.Equal(t, encoded(t, "a\x00{}"), "a\x00{}")
	assert.Equal(t, encoded(t, name("n")), "n")
	assert.Equal(t, encoded(t, id(-1<<63)), "-9223372036854775808")
	assert.Equal(t, encoded(t, int8(-5)), "-5")
	assert.Equal(t, encoded(t, ^uint64(0)), "18446744073709551615")
	for _, err := range []error{encoderError[struct{ A int }](), encoderError[float64](), encoderError[bool](), encoderError[*int](), encoderError[any]()} {
		assert.Error(t, err)
		assert.True(t, strings.Contains(err.Error(), "Options.Key"), err)
	}
}

func encoded[K comparable](t *testing.T, k K) string {
	t.Helper()
	encode, err := KeyEncoder[K]()
	assert.NoError(t, err)
	return encode(k)
}

func encoderError[K comparable]() error {
	_, err := KeyEncoder[K]()
	return err
}

func TestNamesCannotBeTakenForSeparatorsOrTags(t *testing.T) {
	for _, good := range []string{"a", "shop-1_x.y/z", strings.Repeat("n", 128)} {
		assert.Equal(t, nameProblem(good), "")
	}
	for _, bad := range []string{"", "a:b", "a{b", "a}b", "a b", "a\x00", "é", strings.Repeat("n", 129)} {
		assert.True(t, nameProblem(bad) != "", bad)
	}
}
