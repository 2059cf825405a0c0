package protection_test

import (
	"math"
	"strings"
	"testing"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func TestBreakerOptionsThatCannotBeAreErrorsThatNameTheField(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]protection.BreakerOptions{
		"TrialTimeout": {TrialTimeout: -1}, "Ramp": {Ramp: -1}, "SlowAfter": {SlowAfter: -1}, "OverdueAfter": {OverdueAfter: -1},
		"SlowRatio": {SlowRatio: math.NaN()}, "FailureRatio": {FailureRatio: math.Inf(-1)}, "MinCalls": {MinCalls: -5},
	} {
		_, err := protection.NewBreaker(o)
		assert.Error(t, err, field)
		assert.True(t, strings.Contains(err.Error(), "BreakerOptions."+field+" is "), err)
		_, err = protection.NewGroup(protection.GroupOptions[int]{Breaker: o})
		assert.True(t, err != nil && strings.Contains(err.Error(), "BreakerOptions."+field+" is "), err)
	}
	_, err := protection.NewGroup(protection.GroupOptions[int]{MaxKeys: -1})
	assert.True(t, err != nil && strings.Contains(err.Error(), "GroupOptions.MaxKeys is -1"), err)
}

func TestBreakerOptionsOfAnySizeWork(t *testing.T) {
	t.Parallel()
	const long = math.MaxInt64
	for _, o := range []protection.BreakerOptions{
		{Window: long, OpenFor: long, CloseUnder: long, TrialTimeout: long, Ramp: long, SlowAfter: long, OverdueAfter: long, MinCalls: 1},
		{Window: 1, OpenFor: long, CloseUnder: 1, TrialTimeout: 1, Ramp: 1, SlowAfter: 1, OverdueAfter: 1, MinCalls: 1, FailureRatio: 1, SlowRatio: 1},
		{Window: long, OpenFor: long, MinCalls: 1, FailureRatio: 1e-300, SlowRatio: 1e-300},
	} {
		b := newBreaker(t, o)
		calls(t, b, 2, protection.Failure)
		refused(t, b, protection.ErrOpen)
		assert.Equal(t, b.State(), protection.Open)
	}
}
