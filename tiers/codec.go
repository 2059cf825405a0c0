package tiers

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"google.golang.org/protobuf/proto"
)

// Codec turns values into bytes and back. Implementations must be safe for concurrent use. A panic in one is contained
// and counts as an error; a call of runtime.Goexit ends the goroutine of the caller.
type Codec[V any] interface {
	// ID names the encoding in the envelope: a value stored under another ID is a miss. 0 to 15 belong to this package,
	// 16 to 255 are free. A codec that can no longer read what it wrote before needs another ID.
	ID() uint8

	// Encode appends the encoding of v to dst and returns the extended slice. It must keep neither.
	Encode(dst []byte, v V) ([]byte, error)

	// Decode returns the value of src. src is good only until Decode returns and must not be changed: the value must not
	// alias it.
	Decode(src []byte) (V, error)
}

// The ids of the codecs of this package.
const (
	codecRaw      = 1
	codecJSON     = 2
	codecProto    = 3
	firstUserID   = 16
	markNil       = 0 // first byte of what can be nil and is
	markNonNil    = 1
	replacedUTF8  = `\ufffd` // how encoding/json writes bytes that are not UTF-8; a real U+FFFD is not escaped
	jsonEscapeLen = 1
)

var (
	errInvalidUTF8 = errors.New("a string is not UTF-8, and JSON has no way to keep it")
	errNoMark      = errors.New("no mark in front")
)

// DefaultCodec returns the codec that a view uses if it is given none: exact bytes for V based on string or []byte, with
// nil and empty kept apart; protobuf for generated protobuf messages; else [JSON].
func DefaultCodec[V any]() Codec[V] {
	t := reflect.TypeFor[V]()
	switch {
	case t.Kind() == reflect.Pointer && t.Implements(reflect.TypeFor[proto.Message]()):
		return protoCodec[V]{}
	case t.Kind() == reflect.String, t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[byte]():
		return rawCodec[V]{}
	default:
		return JSON[V]()
	}
}

// JSON returns the codec of encoding/json. What it keeps is what encoding/json keeps:
//
//   - nil and empty slices and maps, nil pointers, zero values and []byte come back as they were; omitempty and unexported
//     fields lose what they lose;
//   - a time.Time comes back as the same instant with the same offset (Equal holds); its monotonic reading and the name
//     of its zone do not. UTC stays UTC;
//   - NaN, infinities, channels, functions and cycles cannot be encoded: Set returns an [*EncodeError];
//   - strings that are not UTF-8 cannot be encoded either: encoding/json alone would change them silently;
//   - behind an interface, numbers become float64 and structs become maps;
//   - of a struct with unexported fields alone nothing is kept, unless it marshals and unmarshals itself: [NewRedisView]
//     returns an error if V, or what V points to or is a slice, an array or a map of, is one.
//
// Values are stored with a fingerprint of V's name and of its exported fields, with their types and tags: after a field
// was added or changed, older values are misses, not values with a hole. Where several versions of a program must read
// each other's values, use protobuf or a codec of your own.
func JSON[V any]() Codec[V] { return jsonCodec[V]{} }

type jsonCodec[V any] struct{}

func (jsonCodec[V]) ID() uint8 { return codecJSON }

func (jsonCodec[V]) Encode(dst []byte, v V) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&v); err != nil { // by its address, so that methods of *V are called
		return nil, err
	}
	out := b.Bytes()
	if lostBytes(out[len(dst):]) {
		return nil, errInvalidUTF8
	}
	return out[:len(out)-1], nil // without the encoder's line feed
}

// lostBytes reports whether encoding/json replaced bytes of a string in what it wrote: the escape stands there, and its
// backslash is not itself escaped.
func lostBytes(written []byte) bool {
	for rest := written; ; {
		i := bytes.Index(rest, []byte(replacedUTF8))
		if i < 0 {
			return false
		}
		slashes := 0
		for i-slashes-jsonEscapeLen >= 0 && rest[i-slashes-jsonEscapeLen] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		rest = rest[i+len(replacedUTF8):]
	}
}

func (jsonCodec[V]) Decode(src []byte) (V, error) {
	var v V
	if err := json.Unmarshal(src, &v); err != nil {
		var zero V
		return zero, err
	}
	return v, nil
}

func (jsonCodec[V]) fingerprint() uint32 { return typeFingerprint(reflect.TypeFor[V](), true) }

// Proto returns the protobuf codec for the generated message type M. A nil M comes back as nil. Values are stored with
// the message's full name, so that messages evolve by the rules of protobuf.
func Proto[M proto.Message]() Codec[M] { return protoCodec[M]{} }

type protoCodec[V any] struct{}

func (protoCodec[V]) ID() uint8 { return codecProto }

func (protoCodec[V]) Encode(dst []byte, v V) ([]byte, error) {
	m, ok := any(v).(proto.Message)
	if !ok || !m.ProtoReflect().IsValid() {
		return append(dst, markNil), nil
	}
	return proto.MarshalOptions{}.MarshalAppend(append(dst, markNonNil), m)
}

func (protoCodec[V]) Decode(src []byte) (V, error) {
	var zero V
	src, err := present(src)
	if err != nil || src == nil {
		return zero, err
	}
	m, ok := any(zero).(proto.Message)
	if !ok {
		return zero, errors.New("not a generated message")
	}
	m = m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(src, m); err != nil {
		return zero, err
	}
	v, ok := m.(V)
	if !ok {
		return zero, errors.New("the message is of another type")
	}
	return v, nil
}

func (protoCodec[V]) fingerprint() uint32 {
	var zero V
	if m, ok := any(zero).(proto.Message); ok {
		return fingerprintOf(string(m.ProtoReflect().Descriptor().FullName()))
	}
	return typeFingerprint(reflect.TypeFor[V](), false)
}

// rawCodec keeps strings and byte slices, and types based on them, byte for byte.
type rawCodec[V any] struct{}

func (rawCodec[V]) ID() uint8 { return codecRaw }

func (rawCodec[V]) Encode(dst []byte, v V) ([]byte, error) {
	switch rv := reflect.ValueOf(&v).Elem(); {
	case rv.Kind() == reflect.String:
		return append(append(dst, markNonNil), rv.String()...), nil
	case rv.IsNil():
		return append(dst, markNil), nil
	default:
		return append(append(dst, markNonNil), rv.Bytes()...), nil
	}
}

func (rawCodec[V]) Decode(src []byte) (V, error) {
	var v V
	src, err := present(src)
	if err != nil || src == nil {
		return v, err
	}
	if rv := reflect.ValueOf(&v).Elem(); rv.Kind() == reflect.String {
		rv.SetString(string(src))
	} else {
		rv.SetBytes(append(make([]byte, 0, len(src)), src...))
	}
	return v, nil
}

func (rawCodec[V]) fingerprint() uint32 { return typeFingerprint(reflect.TypeFor[V](), false) }

// present takes the mark off src. It returns nil if the mark says nil.
func present(src []byte) ([]byte, error) {
	switch {
	case len(src) == 1 && src[0] == markNil:
		return nil, nil
	case len(src) > 0 && src[0] == markNonNil:
		return src[1:], nil
	default:
		return nil, errNoMark
	}
}
