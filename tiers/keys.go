package tiers

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// KeyEncoder returns the function that turns keys of type K into strings, different for different keys: the bytes of
// strings, the decimal digits of integers, and the same for types based on them. For any other K it returns an error
// that names Options.Key, the option with which a cache gets an encoder of its own. The function is safe for concurrent use.
func KeyEncoder[K comparable]() (func(K) string, error) {
	switch t := reflect.TypeFor[K](); t.Kind() {
	case reflect.String:
		return func(k K) string {
			if s, ok := any(k).(string); ok {
				return s
			}
			return reflect.ValueOf(k).String()
		}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(k K) string { return strconv.FormatInt(reflect.ValueOf(k).Int(), 10) }, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(k K) string { return strconv.FormatUint(reflect.ValueOf(k).Uint(), 10) }, nil
	default:
		return nil, fmt.Errorf("tiers: keys of type %v have no encoding of their own: set Options.Key to a function that returns a different string for each key", t)
	}
}

// redisKey returns the Redis key of an encoded cache key: base, then the key as the hash tag, so that everything kept
// about one cache key is in one slot and its name alone decides which.
//
// Redis takes the bytes between the first '{' and the first '}' after it as the tag, and no tag at all if there are
// none. So braces are written as %7B and %7D, the percent sign that introduces them as %25, and the empty key as a bare
// percent sign, which no other key yields. Different keys have different Redis keys.
func redisKey(base, key string) string {
	switch {
	case key == "":
		return base + "{%}"
	case strings.ContainsAny(key, "{}%"):
		return base + "{" + tagEscaper.Replace(key) + "}"
	default:
		return base + "{" + key + "}"
	}
}

var tagEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D") //nolint:gochecknoglobals // immutable, and costly to build

// nameProblem says what keeps name from being a part of a Redis key that is not taken for a separator or a hash tag; "" if
// nothing does.
func nameProblem(name string) string {
	const hint = "it must be 1 to 128 letters, digits, '-', '_', '.' or '/'"
	if name == "" {
		return "is empty: " + hint
	}
	if len(name) > 128 {
		return fmt.Sprintf("has %d bytes: %s", len(name), hint)
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-_./", r):
		default:
			return fmt.Sprintf("contains %q: %s", r, hint)
		}
	}
	return ""
}
