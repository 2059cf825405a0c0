package tiers

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/snowshed-go/snowshed/internal/assert"
)

func recoded[V any](t *testing.T, c Codec[V], v V) V {
	t.Helper()
	b, err := c.Encode([]byte("before"), v)
	assert.NoError(t, err)
	assert.True(t, bytes.HasPrefix(b, []byte("before")), "Encode appends")
	src := b[len("before"):]
	got, err := c.Decode(src)
	assert.NoError(t, err)
	clear(src) // the value must not live in it
	return got
}

func TestDefaultCodecKeepsBytesAndNils(t *testing.T) {
	type (
		text string
		blob []byte
	)
	for _, s := range []string{"", "null", "*", "\x00\xff\xfe", strings.Repeat("x", 1000)} {
		assert.Equal(t, recoded(t, DefaultCodec[string](), s), s)
		assert.Equal(t, recoded(t, DefaultCodec[text](), text(s)), text(s))
		assert.Equal(t, recoded(t, DefaultCodec[blob](), blob(s)), blob(s))
	}
	assert.Equal(t, recoded(t, DefaultCodec[[]byte](), nil), nil)
	assert.Equal(t, recoded(t, DefaultCodec[[]byte](), []byte{}), []byte{})
	assert.Equal(t, recoded(t, DefaultCodec[json.RawMessage](), json.RawMessage(` {"a" : 1} `)), json.RawMessage(` {"a" : 1} `))
	assert.Equal(t, recoded(t, DefaultCodec[[]int](), nil), nil)
	assert.Equal(t, recoded(t, DefaultCodec[[]int](), []int{}), []int{})
	assert.Equal(t, recoded(t, DefaultCodec[map[string]int](), nil), nil)
	assert.Equal(t, recoded(t, DefaultCodec[map[string]int](), map[string]int{}), map[string]int{})
	assert.Equal(t, recoded(t, DefaultCodec[*int](), nil), nil)
	assert.Equal(t, *recoded(t, DefaultCodec[*int](), new(0)), 0)
}

func TestProtobufIsChosenForMessagesAndKeepsNil(t *testing.T) {
	c := DefaultCodec[*wrapperspb.StringValue]()
	assert.Equal(t, c.ID(), uint8(codecProto))
	assert.Equal(t, recoded(t, c, wrapperspb.String("x")).GetValue(), "x")
	assert.True(t, recoded(t, c, nil) == nil, "nil came back as a message")
	assert.True(t, recoded(t, c, &wrapperspb.StringValue{}) != nil, "an empty message came back as nil")
	assert.Equal(t, recoded(t, Proto[*wrapperspb.Int64Value](), wrapperspb.Int64(-1)).GetValue(), -1)
}

func TestTimesComeBackAsTheSameInstant(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.Now(), time.Now().UTC(), time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.FixedZone("", -9*3600-1800)),
	} {
		got := recoded(t, JSON[time.Time](), at)
		assert.True(t, got.Equal(at), got, " is not ", at)
		_, offset := got.Zone()
		_, want := at.Zone()
		assert.Equal(t, offset, want)
	}
	assert.True(t, recoded(t, JSON[time.Time](), time.Time{}).IsZero(), "the zero time")
	assert.Equal(t, recoded(t, JSON[time.Time](), time.Now().UTC()).Location(), time.UTC)
}

func TestWhatJSONWouldChangeIsRefused(t *testing.T) {
	for _, v := range []any{math.NaN(), math.Inf(1), make(chan int), "a\xff", map[string]string{"k\xc0": ""}, []string{`\`, "\xff"}} {
		_, err := JSON[any]().Encode(nil, v)
		assert.Error(t, err, reflect.TypeOf(v))
	}
	for _, s := range []string{"\ufffd", `\ufffd`, `\\ufffd`, "<>&\u2028", "ok"} {
		assert.Equal(t, recoded(t, JSON[any](), any(s)), any(s))
	}
	_, err := JSON[int]().Decode([]byte("1 2"))
	assert.Error(t, err)
}

// Types of which encoding/json keeps nothing, and some that look alike.
//
//nolint:unused // nobody reads their fields, encoding/json included
type (
	hidden    struct{ id int }
	disguised struct {
		Name string `json:"-"`
	}
	wrapping   struct{ hidden }
	promoting  struct{ inner }
	inner      struct{ Name string }
	partly     struct{ id, Name string }
	empty      struct{}
	marshals   struct{ hidden }
	itself     struct{ id string }
	byPointer  struct{ id string }
	texts      struct{ id string }
	recursive  struct{ *recursive }
	withHidden struct{ Hidden hidden }
)

func (marshals) MarshalJSON() ([]byte, error)       { return []byte("{}"), nil }
func (i itself) MarshalJSON() ([]byte, error)       { return json.Marshal(i.id) }
func (i *itself) UnmarshalJSON(b []byte) error      { return json.Unmarshal(b, &i.id) }
func (p *byPointer) MarshalJSON() ([]byte, error)   { return json.Marshal(p.id) }
func (p *byPointer) UnmarshalJSON(b []byte) error   { return json.Unmarshal(b, &p.id) }
func (x texts) MarshalText() ([]byte, error)        { return []byte(x.id), nil }
func (x *texts) UnmarshalText(b []byte) (err error) { x.id = string(b); return nil }

func TestJSONRefusesTypesOfWhichItKeepsNothing(t *testing.T) {
	for _, err := range []error{
		refusal[hidden](), refusal[*hidden](), refusal[[]hidden](), refusal[[2]**hidden](), refusal[map[string]hidden](), refusal[map[string][]*hidden](),
		refusal[disguised](), refusal[wrapping](), refusal[marshals](), refusal[recursive](), refusal[sync.Mutex](), refusal[map[string]byPointer](),
	} {
		o := assert.ErrorAs[*OptionError](t, err)
		assert.Equal(t, o.Field, "Codec")
		assert.True(t, strings.HasPrefix(err.Error(), "tiers: RedisViewOptions.Codec "), err)
	}
	for _, err := range []error{
		refusal[promoting](), refusal[partly](), refusal[empty](), refusal[*empty](), refusal[itself](), refusal[*itself](), refusal[byPointer](),
		refusal[[]byPointer](), refusal[map[string]*byPointer](), refusal[texts](), refusal[time.Time](), refusal[map[string]time.Time](),
		refusal[withHidden](), refusal[any](), refusal[[]any](), refusal[int](), refusal[[]byte](), refusal[*wrapperspb.StringValue](),
	} {
		assert.NoError(t, err)
	}
	assert.Equal(t, recoded(t, JSON[itself](), itself{"a"}), itself{"a"})
	assert.Equal(t, recoded(t, JSON[byPointer](), byPointer{"a"}), byPointer{"a"})
	assert.Equal(t, recoded(t, JSON[[]byPointer](), []byPointer{{"a"}}), []byPointer{{"a"}})
	assert.Equal(t, recoded(t, JSON[texts](), texts{"a"}), texts{"a"})
	assert.Equal(t, recoded(t, JSON[promoting](), promoting{inner{"a"}}), promoting{inner{"a"}})
}

// refusal returns why a view of V's with the default codec cannot be.
func refusal[V any]() error {
	_, err := NewRedisView(&Redis{}, RedisViewOptions[string, V]{Name: "v"})
	return err
}

func TestFingerprintsTellTypesApart(t *testing.T) {
	type user struct{ ID int }
	type order struct{ ID int }
	type node struct {
		Next *node
		User user
	}
	of := func(t reflect.Type) uint32 { return typeFingerprint(t, true) }
	local := func() reflect.Type {
		type user struct {
			ID   int
			Name string
		}
		return reflect.TypeFor[user]()
	}
	seen := map[uint32]reflect.Type{}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[user](), reflect.TypeFor[order](), local(), reflect.TypeFor[*user](), reflect.TypeFor[[]user](), reflect.TypeFor[[2]user](),
		reflect.TypeFor[map[string]user](), reflect.TypeFor[map[int]user](), reflect.TypeFor[node](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[time.Time](), reflect.TypeFor[any](),
		reflect.TypeFor[struct{ A int }](), reflect.TypeFor[struct{ A string }](), reflect.TypeFor[struct {
			A int `json:"b"`
		}](),
	} {
		if other, ok := seen[of(typ)]; ok {
			t.Errorf("%v and %v look the same", typ, other)
		}
		seen[of(typ)] = typ
		assert.Equal(t, of(typ), of(typ))
	}
}

func TestCompression(t *testing.T) {
	src := bytes.Repeat([]byte("snow "), 1000)
	small, worth := compress(nil, src)
	assert.True(t, worth)
	got, err := decompress(small, len(src))
	assert.NoError(t, err)
	assert.Equal(t, got, src)

	_, err = decompress(small, len(src)-1)
	assert.ErrorIs(t, err, errOversize)
	_, err = decompress([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, 1<<20) // claims 4 GiB
	assert.Error(t, err)
	_, err = decompress(small[:len(small)-1], len(src))
	assert.Error(t, err)

	noise := s2.Encode(nil, src)
	_, worth = compress(nil, noise)
	assert.True(t, !worth, "noise does not shrink")
}
