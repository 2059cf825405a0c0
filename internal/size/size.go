// Package size estimates how much memory a Go value takes.
package size

import (
	"reflect"
	"unsafe"
)

// maxNodes bounds how many values one estimate looks at. Beyond it the rest of a slice or map counts like its first
// part.
const maxNodes = 4096

// Of returns the bytes that v takes, with all that it points to. What is reached twice through pointers counts once;
// unused capacity counts; channels, functions and what they hold do not.
func Of[T any](v T) int {
	switch x := any(v).(type) {
	case string:
		return int(unsafe.Sizeof(x)) + len(x)
	case []byte:
		return int(unsafe.Sizeof(x)) + cap(x)
	}
	rv := reflect.ValueOf(&v).Elem()
	w := walker{left: maxNodes}
	return int(rv.Type().Size()) + w.behind(rv)
}

type walker struct {
	seen map[unsafe.Pointer]bool
	left int
}

// behind returns the bytes that v refers to, without those of v itself.
func (w *walker) behind(v reflect.Value) int {
	if w.left--; w.left <= 0 {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		if v.IsNil() || w.visited(v.UnsafePointer()) {
			return 0
		}
		return v.Cap()*int(v.Type().Elem().Size()) + w.items(v)
	case reflect.Array:
		return w.items(v)
	case reflect.Pointer:
		if v.IsNil() || w.visited(v.UnsafePointer()) {
			return 0
		}
		return int(v.Type().Elem().Size()) + w.behind(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return int(v.Elem().Type().Size()) + w.behind(v.Elem())
	case reflect.Struct:
		n := 0
		for i := range v.NumField() {
			n += w.behind(v.Field(i))
		}
		return n
	case reflect.Map:
		return w.mapped(v)
	default:
		return 0
	}
}

func (w *walker) items(v reflect.Value) int {
	if flat(v.Type().Elem()) {
		return 0
	}
	n := 0
	for i := range v.Len() {
		if w.left <= 0 {
			return n / max(i, 1) * v.Len()
		}
		n += w.behind(v.Index(i))
	}
	return n
}

func (w *walker) mapped(v reflect.Value) int {
	if v.IsNil() || w.visited(v.UnsafePointer()) {
		return 0
	}
	t := v.Type()
	n := v.Len() * int(t.Key().Size()+t.Elem().Size()+1)
	n += n / 7 // a map is at most seven eighths full
	if flat(t.Key()) && flat(t.Elem()) {
		return n
	}
	deep, i := 0, 0
	for it := v.MapRange(); it.Next(); i++ {
		if w.left <= 0 {
			return n + deep/max(i, 1)*v.Len()
		}
		deep += w.behind(it.Key()) + w.behind(it.Value())
	}
	return n + deep
}

func (w *walker) visited(p unsafe.Pointer) bool {
	if w.seen[p] {
		return true
	}
	if w.seen == nil {
		w.seen = make(map[unsafe.Pointer]bool)
	}
	w.seen[p] = true
	return false
}

// flat reports whether values of a kind never refer to others, for the kinds that slices are mostly made of.
func flat(t reflect.Type) bool {
	k := t.Kind()
	return k <= reflect.Complex128 && k != reflect.Invalid
}
