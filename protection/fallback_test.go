package protection_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func newFallback(t *testing.T, stages ...protection.Stage[string]) *protection.Fallback[string] {
	t.Helper()
	f, err := protection.NewFallback(protection.FallbackOptions[string]{Name: "users", Stages: stages})
	assert.NoError(t, err)
	return f
}

var errDown = errors.New("down")

func down(context.Context) (string, error) { return "garbage", errDown }

func stale(v string, ok bool) protection.Stage[string] {
	return protection.StaleValue(func(context.Context) (string, bool) { return v, ok })
}

func TestFallbackAnswersByTheFirstStageThatCan(t *testing.T) {
	t.Parallel()
	f := newFallback(t, stale("old", true), protection.StaticValue("nobody"))
	good, err := f.Do(t.Context(), nil, func(context.Context) (string, error) { return "Ada", nil })
	assert.NoError(t, err)
	assert.Equal(t, good, protection.Answer[string]{Value: "Ada"})
	assert.True(t, !good.Degraded())

	got, err := f.Do(t.Context(), nil, down)
	assert.NoError(t, err)
	assert.Equal(t, got, protection.Answer[string]{Value: "old", By: "stale", Cause: errDown})
	assert.True(t, got.Degraded())

	got, err = newFallback(t, stale("", false), protection.StaticValue("nobody")).Do(t.Context(), nil, down)
	assert.NoError(t, err)
	assert.Equal(t, got.By, "static")
}

func TestFallbackOnARefusal(t *testing.T) {
	t.Parallel()
	full := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 1})
	acquire(t, full)
	got, err := newFallback(t, protection.StaticValue("nobody")).Do(t.Context(), full, down)
	assert.NoError(t, err)
	assert.ErrorIs(t, got.Cause, protection.ErrFull)
}

func TestFallbackLoaderHasABulkheadOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFallback(t, protection.OtherLoader(func(context.Context) (string, error) {
			advance(time.Second)
			return "replica", nil
		}, 1), protection.StaticValue("nobody"))
		var first protection.Answer[string]
		go func() { first, _ = f.Do(t.Context(), nil, down) }()
		synctest.Wait()
		second, err := f.Do(t.Context(), nil, down)
		assert.NoError(t, err)
		assert.Equal(t, second.By, "static", "the second source is not brought down in turn")
		advance(time.Second)
		synctest.Wait()
		assert.Equal(t, first.By, "loader")
	})
}

func TestFallbackWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFallback(t, stale("", false), protection.OtherLoader(func(context.Context) (string, error) {
		return "", &protection.RejectedError{Name: "replica", Reason: protection.ErrFull}
	}, 1), protection.OtherLoader(func(context.Context) (string, error) { panic("boom") }, 1))
	got, err := f.Do(t.Context(), nil, down)
	assert.Equal(t, got, protection.Answer[string]{})
	assert.ErrorIs(t, err, errDown)
	assert.True(t, !errors.Is(err, protection.ErrRejected), "the call has started, whatever became of the stages")
	failed := assert.ErrorAs[*protection.FallbackError](t, err)
	assert.Equal(t, len(failed.Stages), 3)
	assert.ErrorIs(t, failed.Stages[0], protection.ErrNoAnswer)
	assert.ErrorIs(t, failed.Stages[1], protection.ErrFull)
	assert.ErrorAs[*protection.PanicError](t, failed.Stages[2])
	assert.True(t, strings.Contains(err.Error(), "down"), err)
}

func TestFallbackIsNotForWhoHasLeft(t *testing.T) {
	t.Parallel()
	f := newFallback(t, protection.Stage[string]{Name: "x", Find: func(context.Context, error) (string, error) {
		t.Error("asked")
		return "", nil
	}})
	_, err := f.Do(t.Context(), nil, func(context.Context) (string, error) { return "", context.Canceled })
	assert.Equal(t, err, context.Canceled)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Do(ctx, nil, down)
	assert.Equal(t, err, errDown)
}

func TestFallbackWhen(t *testing.T) {
	t.Parallel()
	f, err := protection.NewFallback(protection.FallbackOptions[string]{
		Stages: []protection.Stage[string]{protection.StaticValue("nobody")},
		When:   func(err error) bool { return !errors.Is(err, errDown) },
	})
	assert.NoError(t, err)
	_, err = f.Do(t.Context(), nil, down)
	assert.Equal(t, err, errDown)
}

func TestFallbacksThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, stages := range map[string][]protection.Stage[string]{
		"Stages is empty":    nil,
		"Stages[0] is \"\"":  {{Find: protection.StaticValue("x").Find}},
		"Stages[1] is \"x\"": {protection.StaticValue("x"), {Name: "x"}},
		"Stages[0]: protection: BulkheadOptions.MaxConcurrent is 0": {protection.OtherLoader(down, 0)},
	} {
		_, err := protection.NewFallback(protection.FallbackOptions[string]{Stages: stages})
		named(t, err, "FallbackOptions."+want)
	}
}
