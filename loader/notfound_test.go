package loader_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/contain"
	"github.com/snowshed-go/snowshed/loader"
)

func TestNotFoundRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                      {nil, false},
		"ErrNotFound":              {loader.ErrNotFound, true},
		"ErrNotFound wrapped":      {fmt.Errorf("user 1: %w", loader.ErrNotFound), true},
		"ErrNotFound wrapped deep": {fmt.Errorf("a: %w", fmt.Errorf("b: %w", loader.ErrNotFound)), true},
		"ErrNotFound joined":       {errors.Join(errors.New("a"), loader.ErrNotFound), true},
		"sql.ErrNoRows":            {sql.ErrNoRows, true},
		"sql.ErrNoRows wrapped":    {fmt.Errorf("second query: %w", sql.ErrNoRows), false},
		"sql.ErrNoRows joined":     {errors.Join(sql.ErrNoRows), false},
		"another error":            {errors.New("snowshed: not found"), false},
		"a cancellation":           {context.Canceled, false},
		"both wrapped":             {fmt.Errorf("%w after %w", loader.ErrNotFound, sql.ErrNoRows), true},
	} {
		assert.Equal(t, loader.IsNotFound(c.err), c.want, name)
	}
}

func TestErrNotFoundAnswersToTheNameOfTheStandardLibrary(t *testing.T) {
	t.Parallel()
	assert.ErrorIs(t, loader.ErrNotFound, sql.ErrNoRows)
	assert.ErrorIs(t, fmt.Errorf("user 1: %w", loader.ErrNotFound), sql.ErrNoRows)
	assert.True(t, !errors.Is(sql.ErrNoRows, loader.ErrNotFound), "but not the reverse: a wrapped sql.ErrNoRows is a failure")
	assert.True(t, !errors.Is(loader.ErrNotFound, context.Canceled))
}

// A loader that panics has not said that the key does not exist, even if it panics with an error that would have said so.
func TestPanicIsNeverNotFound(t *testing.T) {
	t.Parallel()
	for _, value := range []error{loader.ErrNotFound, sql.ErrNoRows, fmt.Errorf("user 1: %w", loader.ErrNotFound)} {
		_, err := contain.Call(func() (int, error) { panic(value) })
		panicked := assert.ErrorAs[*loader.PanicError](t, err)
		assert.ErrorIs(t, err, value)
		assert.True(t, !loader.IsNotFound(panicked), value)
		assert.True(t, !loader.IsNotFound(fmt.Errorf("loading: %w", err)), value)
	}
}
