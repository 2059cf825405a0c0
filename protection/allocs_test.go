//go:build !race

package protection_test

import (
	"context"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

// Admission allocates nothing, through a chain and Do as well; nor does a refusal, but for one error in a millisecond.
func TestAdmissionAllocatesNothing(t *testing.T) {
	clock := protection.NewClock()
	defer clock.Close()
	b := newBreaker(t, protection.BreakerOptions{Clock: clock, SlowAfter: time.Second, OverdueAfter: time.Second})
	slots := newBulkhead(t, protection.BulkheadOptions{MaxConcurrent: 10})
	for name, p := range map[string]protection.Policy{
		"breaker":         b,
		"chain":           protection.Chain(slots, b),
		"chain of chains": protection.Chain(protection.Chain(slots, slots, slots, slots), protection.Chain(b, b), slots, b),
		"once":            protection.Once(b),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		assert.Equal(t, testing.AllocsPerRun(1000, func() {
			if permit, err := p.Acquire(ctx); err == nil {
				permit.Done(protection.Success)
			}
		}), 0, name)
		if name == "once" {
			continue // it notes the permit in the ctx of Do
		}
		ran := 0
		assert.Equal(t, testing.AllocsPerRun(1000, func() {
			_ = protection.Do(ctx, p, func(context.Context) error { ran++; return nil })
		}), 0, name)
		assert.Equal(t, testing.AllocsPerRun(1000, func() {
			v, err := protection.DoValue(ctx, p, func(context.Context) (int, error) { return 7, nil })
			if v != 7 || err != nil {
				t.Error(v, err)
			}
		}), 0, name)
		assert.True(t, ran > 1000)
	}
	b.ForceOpen("test", time.Time{})
	assert.Equal(t, testing.AllocsPerRun(1000, func() {
		if _, err := b.Acquire(t.Context()); err == nil {
			t.Error("admitted")
		}
	}), 0, "refusal")
}
