package tiers

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// fingerprinter is a codec that says itself which types it can tell apart. For other codecs the name of the type counts.
type fingerprinter interface{ fingerprint() uint32 }

// fingerprintOf returns the 24 bits of a name's hash that an envelope has room for.
func fingerprintOf(name string) uint32 {
	return uint32(xxhash.Sum64String(name) >> 40)
}

// typeFingerprint tells types apart by their full names and, with shape, by their exported fields all the way down.
func typeFingerprint(t reflect.Type, shape bool) uint32 {
	var b strings.Builder
	describe(&b, t, shape, map[reflect.Type]bool{})
	return fingerprintOf(b.String())
}

func describe(b *strings.Builder, t reflect.Type, shape bool, seen map[reflect.Type]bool) {
	fmt.Fprintf(b, "%s.%s:%s(", t.PkgPath(), t.Name(), t.Kind())
	defer b.WriteByte(')')
	if seen[t] {
		return // a recursive type: it is described further up
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		describe(b, t.Elem(), shape, seen)
	case reflect.Array:
		fmt.Fprintf(b, "%d,", t.Len())
		describe(b, t.Elem(), shape, seen)
	case reflect.Map:
		describe(b, t.Key(), shape, seen)
		describe(b, t.Elem(), shape, seen)
	case reflect.Struct:
		if shape && !marshalsItself(t) || t.Name() == "" {
			describeFields(b, t, shape, seen)
		}
	default:
	}
}

func describeFields(b *strings.Builder, t reflect.Type, shape bool, seen map[reflect.Type]bool) {
	for f := range t.Fields() {
		if f.IsExported() || f.Anonymous {
			fmt.Fprintf(b, "%s %q ", f.Name, f.Tag.Get("json"))
			describe(b, f.Type, shape, seen)
		}
	}
}

// marshalsItself reports whether t, such as time.Time, has its own JSON form, of which its fields say nothing.
func marshalsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}
