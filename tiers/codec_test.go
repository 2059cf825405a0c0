package tiers

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
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
