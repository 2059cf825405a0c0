package protection_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// waits starts a Wait and gives what it came to and when.
func waits(ctx context.Context, t *testing.T, b *protection.TokenBucket) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- b.Wait(ctx) }()
	synctest.Wait()
	return done
}

func pending(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatal("has ended: ", err)
	default:
	}
}

func ended(t *testing.T, done <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		return err
	default:
		t.Fatal("still waits")
		return nil
	}
}

func TestWaitServesInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1, Burst: 1})
		assert.NoError(t, b.Wait(t.Context()), "there is one")
		first := waits(t.Context(), t, b)
		second := waits(t.Context(), t, b)
		refused(t, b, protection.ErrLimited)
		advance(time.Second - 1)
		pending(t, first)
		advance(1)
		assert.NoError(t, ended(t, first))
		pending(t, second)
		refused(t, b, protection.ErrLimited)
		advance(time.Second)
		assert.NoError(t, ended(t, second))
	})
}

func TestWaitThatCannotMeetItsDeadlineFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1, Burst: 1})
		calls(t, b, 1, protection.Success)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		err := b.Wait(ctx)
		assert.ErrorIs(t, err, protection.ErrLimited)
		assert.Equal(t, assert.ErrorAs[*protection.RejectedError](t, err).RetryAfter, time.Second)
		assert.Equal(t, time.Since(start), 0)
		later, cancel := context.WithTimeout(t.Context(), time.Second+1)
		defer cancel()
		assert.NoError(t, b.Wait(later))
		assert.Equal(t, time.Since(start), time.Second)
	})
}

func TestWaitThatIsCancelledGivesItsTokenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1, Burst: 1})
		calls(t, b, 1, protection.Success)
		position := b.Position()
		ctx, cancel := context.WithCancel(t.Context())
		first := waits(t.Context(), t, b)
		second := waits(ctx, t, b)
		assert.Equal(t, b.Tokens(), -2)
		cancel()
		assert.Equal(t, ended(t, second), context.Canceled)
		assert.Equal(t, b.Tokens(), -1)
		advance(time.Second)
		assert.NoError(t, ended(t, first))
		assert.True(t, b.Position() > position)
		assert.Equal(t, b.Wait(ctx), context.Canceled, "a dead ctx takes nothing")
		assert.Equal(t, b.Tokens(), 0)
	})
}

func TestWaitFollowsTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, protection.TokenBucketOptions{Rate: 1000, Burst: 1})
		calls(t, b, 1, protection.Success)
		assert.NoError(t, b.SetRate(0.01))
		start := time.Now()
		first, second := waits(t.Context(), t, b), waits(t.Context(), t, b)
		advance(50 * time.Second) // half of the first token
		assert.NoError(t, b.SetRate(0))
		advance(time.Hour)
		pending(t, first)
		assert.NoError(t, b.SetRate(1))
		advance(500 * time.Millisecond)
		assert.NoError(t, ended(t, first))
		pending(t, second)
		assert.NoError(t, b.SetRate(1e-300))
		assert.NoError(t, b.SetBurst(5))
		advance(time.Hour)
		pending(t, second)
		assert.NoError(t, b.SetRate(1000))
		advance(time.Millisecond)
		assert.NoError(t, ended(t, second))
		third := waits(t.Context(), t, b)
		assert.NoError(t, b.SetRate(0))
		pending(t, third)
		assert.NoError(t, b.SetRate(1e12))
		advance(time.Microsecond)
		assert.NoError(t, ended(t, third))
		assert.True(t, time.Since(start) < 3*time.Hour)
	})
}
