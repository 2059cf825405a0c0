package size_test

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/size"
)

const (
	word = int(unsafe.Sizeof(uintptr(0)))
	// The headers of strings, interfaces and slices.
	str, iface, slice = 2 * word, 2 * word, 3 * word
)

type named string

type user struct {
	ID     int64
	Name   string
	Tags   []string
	secret *int32
}

type list struct {
	next *list
	_    [3]uintptr
}

// check compares an estimate with bytes that were counted by hand.
func check[T any](t *testing.T, name string, v T, want int) {
	t.Helper()
	assert.Equal(t, size.Of(v), want, name)
}

func TestHandCounted(t *testing.T) {
	t.Parallel()
	n := int32(1)
	abc := "abc"
	check(t, "bool", true, 1)
	check(t, "int64", int64(1), 8)
	check(t, "complex", complex(1, 1), 16)
	check(t, "array", [5]uint16{}, 10)
	check(t, "empty struct", struct{}{}, 0)
	check(t, "channel", make(chan [1000]int, 10), word)
	check(t, "func", func() {}, word)

	check(t, "empty string", "", str)
	check(t, "string", abc, str+3)
	check(t, "named string", named(abc), str+3)
	check(t, "pointer to a string", &abc, word+str+3)

	check(t, "nil bytes", []byte(nil), slice)
	check(t, "bytes", make([]byte, 10, 100), slice+100)
	check(t, "ints", make([]int32, 10, 100), slice+400)
	check(t, "strings", []string{"a", "bc", ""}, slice+3*str+3)
	check(t, "strings with room", append(make([]string, 0, 10), "abc"), slice+10*str+3)
	check(t, "array of strings", [2]string{"a", "bc"}, 2*str+3)
	check(t, "bytes of bytes", [][]byte{make([]byte, 5), nil}, slice+2*slice+5)

	check(t, "nil pointer", (*user)(nil), word)
	check(t, "pointer", &n, word+4)
	check(t, "struct", user{Name: abc, Tags: []string{abc}, secret: &n}, int(unsafe.Sizeof(user{}))+3+str+3+4)
	check(t, "pointer to pointer", new(&n), word+word+4)

	check[any](t, "nil interface", nil, iface)
	check[any](t, "string in an interface", abc, str+3) // the static type of T is lost: a string is a string
	check(t, "interfaces", []any{abc, nil, int64(7), &n}, slice+4*iface+(str+3)+8+(word+4))
	check[error](t, "an error", &time.ParseError{Layout: abc}, iface+word+int(unsafe.Sizeof(time.ParseError{}))+3)
}

func TestMaps(t *testing.T) {
	t.Parallel()
	check(t, "nil map", map[string]int(nil), word)
	check(t, "empty map", map[string]int{}, word)
	m := make(map[int32]int64)
	for i := range int32(700) {
		m[i] = 1
	}
	flat := 700 * (4 + 8 + 1)
	check(t, "flat map", m, word+flat+flat/7)
	body := 2 * (str + slice + 1)
	check(t, "deep map", map[string][]byte{"a": make([]byte, 10), "bc": nil}, word+body+body/7+1+2+10)
}

func TestWhatIsReachedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	big := new([1000]int64)
	check(t, "two pointers", []*[1000]int64{big, big}, slice+2*word+8000)
	m := map[int8]int8{1: 1}
	check(t, "two maps", []map[int8]int8{m, m}, slice+2*word+3)
	buf := make([]int64, 1000)
	check(t, "two slices", [2][]int64{buf, buf}, 2*slice+8000)
}

// An address says nothing of how much lies there: the first field of a struct, the first element of a slice and a short
// slice of a long array all have the address of the whole.
func TestSameAddressOfSomethingLarger(t *testing.T) {
	t.Parallel()
	buf := make([]int64, 1000)
	check(t, "element first", struct {
		first *int64
		all   []int64
	}{&buf[0], buf}, word+slice+8000)
	check(t, "slice first", struct {
		all   []int64
		first *int64
	}{buf, &buf[0]}, word+slice+8000)
	check(t, "short slice first", [][]int64{buf[:1:1], buf[:10:10], buf}, slice+3*slice+8000)
	type outer struct {
		head int64
		_    [999]int64
	}
	o := new(outer)
	check(t, "field first", struct {
		head  *int64
		outer *outer
	}{&o.head, o}, 2*word+8000)
}

func TestCycles(t *testing.T) {
	t.Parallel()
	ring := &list{}
	ring.next = &list{next: ring}
	check(t, "ring", ring, word+2*int(unsafe.Sizeof(list{})))

	type tree struct{ kids []tree }
	kids := make([]tree, 2)
	kids[0].kids, kids[1].kids = kids, kids
	check(t, "slice that holds itself", tree{kids}, slice+2*slice)

	type box struct{ in any }
	b := &box{}
	b.in = b
	check(t, "interface that holds itself", b, word+iface+word)

	m := map[int64]any{}
	m[1] = m
	body := 8 + iface + 1
	check(t, "map that holds itself", m, word+body+body/7+word)
}

// The walk ends early in a structure that is very deep, and does not run out of stack.
func TestDeepStructures(t *testing.T) {
	t.Parallel()
	var l *list
	for range 1_000_000 {
		l = &list{next: l}
	}
	n := size.Of(l)
	assert.True(t, n > 1000*int(unsafe.Sizeof(list{})) && n <= 1_000_000*int(unsafe.Sizeof(list{})), n)

	type node struct{ kids []node }
	var nodes node
	for range 1_000_000 {
		nodes = node{[]node{nodes}}
	}
	assert.True(t, size.Of(nodes) > 1000*slice)

	type box struct{ in any }
	var b box
	for range 1_000_000 {
		b = box{b}
	}
	assert.True(t, size.Of(b) > 1000*iface)
}

// near accepts an estimate within a tenth of the truth.
func near(t *testing.T, name string, got, want int) {
	t.Helper()
	assert.True(t, got > want-want/10 && got < want+want/10, name, ": ", got, ", not about ", want)
}

func TestTheRestOfLargeOnesCountsLikeTheFirstPart(t *testing.T) {
	t.Parallel()
	const n = 100_000
	text := strings.Repeat("x", 100)
	strs := make([]string, n)
	m := make(map[int]string)
	matrix := make([][]string, 20)
	var array [n]string
	for i := range n {
		strs[i], m[i], array[i] = text, text, text
	}
	for i := range matrix {
		matrix[i] = make([]string, n/20)
		for j := range matrix[i] {
			matrix[i][j] = text
		}
	}
	near(t, "strings", size.Of(strs), slice+n*(str+100))
	near(t, "array", size.Of(&array), n*(str+100))
	near(t, "map", size.Of(m), n*(word+str+1)*8/7+n*100)
	near(t, "matrix", size.Of(matrix), n*(str+100)+21*slice)
	near(t, "huge flat slice", size.Of(make([]float64, 10_000_000)), 80_000_000)
}

// What comes after a long list in a struct is not looked at any more, but its own bytes are plain to see and may be most
// of the value.
func TestBytesBehindALongList(t *testing.T) {
	t.Parallel()
	type page struct {
		links []string
		body  []byte
		text  string
		more  any
		extra *[1_000_000]byte
		index map[int64]int64
	}
	p := page{
		links: make([]string, 10_000),
		body:  make([]byte, 1_000_000),
		text:  strings.Repeat("x", 1_000_000),
		more:  make([]byte, 1_000_000),
		extra: new([1_000_000]byte),
		index: make(map[int64]int64),
	}
	for i := range int64(50_000) {
		p.index[i] = i
	}
	near(t, "page", size.Of(p), 4_000_000+10_000*str+50_000*17*8/7)
}

// Every time of a zone points to the one description of that zone, which costs no value anything.
func TestTimesShareTheirZone(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		zone = time.FixedZone("CET", 3600) // no zone data on this machine
	}
	check(t, "time", time.Unix(0, 0).In(zone), int(unsafe.Sizeof(time.Time{})))
	check(t, "local time", time.Unix(0, 0), int(unsafe.Sizeof(time.Time{})))
}

// Messages point to the description of their type once they were used, which costs no value anything either.
func TestMessagesShareTheirType(t *testing.T) {
	t.Parallel()
	fresh, used := wrapperspb.String("abc"), wrapperspb.String("abc")
	_, err := proto.Marshal(used)
	assert.NoError(t, err)
	assert.Equal(t, size.Of(used), size.Of(fresh))
	want := word + int(unsafe.Sizeof(*used)) + 3
	check(t, "message", used, want)

	s, err := structpb.NewStruct(map[string]any{"name": strings.Repeat("x", 1000), "list": []any{1, 2, 3}})
	assert.NoError(t, err)
	n := size.Of(s)
	assert.True(t, n > 1000 && n < 2500, n)
}
