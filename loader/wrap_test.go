package loader_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/loader"
)

func TestWrapOrder(t *testing.T) {
	t.Parallel()
	var steps []string
	step := func(name string) loader.Middleware[int, string] {
		return func(next loader.Func[int, string]) loader.Func[int, string] {
			return func(ctx context.Context, key int) (string, error) {
				steps = append(steps, "into "+name)
				v, err := next(ctx, key)
				steps = append(steps, "out of "+name)
				return v + name, err
			}
		}
	}
	failure := errors.New("failure")
	load := loader.Wrap(func(_ context.Context, key int) (string, error) {
		steps = append(steps, "load")
		assert.Equal(t, key, 7)
		return "v", failure
	}, step("a"), step("b"), step("c"))

	v, err := load(t.Context(), 7)
	assert.Equal(t, v, "vcba")
	assert.ErrorIs(t, err, failure)
	assert.Equal(t, steps, []string{"into a", "into b", "into c", "load", "out of c", "out of b", "out of a"})
}

func TestWrapInNothing(t *testing.T) {
	t.Parallel()
	load := loader.Wrap(func(context.Context, int) (int, error) { return 1, nil })
	v, err := load(t.Context(), 0)
	assert.NoError(t, err)
	assert.Equal(t, v, 1)
}

func TestWrapLeavesTheCallersSliceAlone(t *testing.T) {
	t.Parallel()
	same := func(next loader.Func[int, int]) loader.Func[int, int] { return next }
	mw := []loader.Middleware[int, int]{same, nil}
	load := func(context.Context, int) (int, error) { return 1, nil }
	_ = loader.Wrap(load, mw[:1]...)
	assert.True(t, mw[0] != nil && mw[1] == nil && len(slices.Clip(mw)) == 2)
}
