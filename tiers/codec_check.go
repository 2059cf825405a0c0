package tiers

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// checker is a codec that knows types which it cannot keep.
type checker interface {
	problem() string // what is wrong, "" if nothing is
}

// problem finds types of which encoding/json keeps nothing and says nothing: what was stored would come back as zero.
func (jsonCodec[V]) problem() string {
	lost := lostType(reflect.TypeFor[V](), true, map[reflect.Type]bool{})
	if lost == nil {
		return ""
	}
	return fmt.Sprintf("must be one of your own: JSON keeps nothing of %v, which has no exported field and does not both marshal and unmarshal itself", lost)
}

// lostType returns the type, t itself or that of its elements, of which encoding/json keeps nothing; nil if there is
// none. What single fields lose is the affair of their type.
func lostType(t reflect.Type, addressable bool, seen map[reflect.Type]bool) reflect.Type {
	if seen[t] || t.Kind() != reflect.Pointer && roundTrips(t, addressable) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return lostType(t.Elem(), true, seen)
	case reflect.Array:
		return lostType(t.Elem(), addressable, seen)
	case reflect.Map:
		return lostType(t.Elem(), false, seen)
	case reflect.Struct:
		if t.NumField() > 0 && !keepsAField(t, map[reflect.Type]bool{}) {
			return t
		}
	default:
	}
	return nil
}

// roundTrips reports whether t has a JSON form of its own and can read it. Methods of the pointer only count for a value
// that has an address: encoding/json does not call them on the elements of a map.
func roundTrips(t reflect.Type, addressable bool) bool {
	p := reflect.PointerTo(t)
	from := t
	if addressable {
		from = p
	}
	return (from.Implements(reflect.TypeFor[json.Marshaler]()) || from.Implements(reflect.TypeFor[encoding.TextMarshaler]())) &&
		(p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
}

// keepsAField reports whether encoding/json writes any field of the struct, those of embedded structs included.
func keepsAField(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			if keepsAField(embedded, seen) {
				return true
			}
		case f.IsExported():
			return true
		}
	}
	return false
}
