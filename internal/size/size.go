// Package size estimates how much memory a Go value takes.
package size

import (
	"reflect"
	"time"
	"unsafe"
)

// maxNodes bounds how many values one estimate looks at. Beyond it the rest of a slice or map counts like its first
// part, and of anything else only those bytes count that are in plain sight.
const maxNodes = 4096

// Of returns the bytes that v takes, with all that it points to. What is reached twice through pointers counts once;
// unused capacity counts; channels, functions and what they hold do not, nor does what all values of a type share.
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
	seen map[unsafe.Pointer]int // how many bytes at an address were counted
	left int
}

// behind returns the bytes that v refers to, without those of v itself.
func (w *walker) behind(v reflect.Value) int {
	w.left--
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		n := w.first(v.UnsafePointer(), v.Cap()*int(v.Type().Elem().Size()))
		if n == 0 {
			return 0
		}
		return n + w.items(v)
	case reflect.Array:
		return w.items(v)
	case reflect.Pointer:
		return w.pointed(v)
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		n := int(v.Elem().Type().Size())
		if k := v.Elem().Kind(); w.left <= 0 && (k == reflect.Struct || k == reflect.Array) {
			return n // which may hold interfaces again, without end
		}
		return n + w.behind(v.Elem())
	case reflect.Struct:
		n := 0
		for _, field := range v.Fields() {
			n += w.behind(field)
		}
		return n
	case reflect.Map:
		return w.mapped(v)
	default:
		return 0
	}
}

func (w *walker) pointed(v reflect.Value) int {
	t := v.Type().Elem()
	if v.IsNil() || shared(t) {
		return 0
	}
	n := w.first(v.UnsafePointer(), int(t.Size()))
	if n == 0 || w.left <= 0 {
		return n
	}
	return n + w.behind(v.Elem())
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
	t := v.Type()
	n := v.Len() * int(t.Key().Size()+t.Elem().Size()+1)
	n += n / 7 // a map is at most seven eighths full
	if n = w.first(v.UnsafePointer(), n); n == 0 || flat(t.Key()) && flat(t.Elem()) {
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

// first returns how many of the n bytes at p were not counted before. The first field of a struct has the address of
// the whole, so an address that was seen may have more to it.
func (w *walker) first(p unsafe.Pointer, n int) int {
	before := w.seen[p]
	if p == nil || n <= before {
		return 0
	}
	if w.seen == nil {
		w.seen = make(map[unsafe.Pointer]int)
	}
	w.seen[p] = n
	return n - before
}

// shared reports whether values of t are there once for many others that point to them: the description of a time
// zone, and that of the type of a protobuf message.
func shared(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	return t == reflect.TypeFor[time.Location]() ||
		t.Name() == "MessageInfo" && t.PkgPath() == "google.golang.org/protobuf/internal/impl"
}

// flat reports whether values of a kind never refer to others, for the kinds that slices are mostly made of.
func flat(t reflect.Type) bool {
	k := t.Kind()
	return k <= reflect.Complex128 && k != reflect.Invalid
}
