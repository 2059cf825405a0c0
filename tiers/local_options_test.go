package tiers

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
)

// go-redis/cache#104: any size is a clear error or a working tier.
func TestLocalSizes(t *testing.T) {
	t.Parallel()
	for size, ok := range map[int64]bool{
		0: true, 1: false, 2: false, 4096: false, MinMaxBytes - 1: false, MinMaxBytes: true, MinMaxBytes + 1: true,
		math.MaxInt64: true, -1: false, math.MinInt64: false,
	} {
		o := LocalOptions{MaxBytes: size, EpochStripes: 1 << 10}
		l, err := NewLocal(o)
		assert.Equal(t, o, LocalOptions{MaxBytes: size, EpochStripes: 1 << 10}, "the caller's options stay as they are")
		if !ok {
			assert.Error(t, err, size)
			assert.True(t, strings.Contains(err.Error(), "LocalOptions.MaxBytes") && strings.Contains(err.Error(), strconv.FormatInt(size, 10)), err)
			assert.True(t, l == nil)
			continue
		}
		assert.NoError(t, err, size)
		works(t, l)
		assert.True(t, l.Stats().Bytes > 0 && l.Stats().Bytes <= l.Stats().MaxBytes)
		assert.NoError(t, l.Close(t.Context()))
	}
}

func TestLocalEpochStripes(t *testing.T) {
	t.Parallel()
	for stripes, ok := range map[int]bool{
		0: true, 1: true, 2: true, 3: false, 1000: false, 1 << 16: true, 1<<16 + 1: false,
		-1: false, math.MinInt: false, math.MaxInt: false, 1 << 29: false,
	} {
		l, err := NewLocal(LocalOptions{EpochStripes: stripes})
		if !ok {
			assert.Error(t, err, stripes)
			assert.True(t, strings.Contains(err.Error(), "LocalOptions.EpochStripes"), err)
			continue
		}
		assert.NoError(t, err, stripes)
		works(t, l)
		assert.NoError(t, l.Close(t.Context()))
	}
}

func works(t *testing.T, l *Local) {
	t.Helper()
	v := viewOf[string, int](t, l)
	put(t, v, "a", 1)
	holds(t, v, "a", 1)
	lacks(t, v, "b")
	v.Invalidate("a")
	lacks(t, v, "a")
	put(t, v, "a", 2)
	holds(t, v, "a", 2)
}

func TestLocalDefaults(t *testing.T) {
	t.Parallel()
	l, err := NewLocal(LocalOptions{})
	assert.NoError(t, err)
	assert.Equal(t, l.Stats().MaxBytes, DefaultMaxBytes)
	assert.Equal(t, len(l.epochs), DefaultEpochStripes)
	assert.NoError(t, l.Close(t.Context()))
}

func TestLocalViewNeedsALocal(t *testing.T) {
	t.Parallel()
	v, err := NewLocalView[int, int](nil, LocalViewOptions[int]{})
	assert.Error(t, err)
	assert.True(t, v == nil)
}

// A Size that overflows or lies makes a value too large, never free.
func TestLocalSizeFunctions(t *testing.T) {
	t.Parallel()
	l := openLocal(t, LocalOptions{})
	for _, size := range []int{math.MaxInt, math.MaxInt - 1, math.MinInt, -10_000} {
		v, err := NewLocalView[int, int](l, LocalViewOptions[int]{Size: func(int) int { return size }})
		assert.NoError(t, err)
		before := l.Stats().TooLarge
		assert.True(t, !v.Put(living(l, 1, 1, 1, 1e9), v.Epoch(1)), size)
		assert.Equal(t, l.Stats().TooLarge, before+1)
		lacks(t, v, 1)
	}
	assert.Equal(t, l.Stats().Bytes, 0)
}
