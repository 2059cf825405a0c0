package protection_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func TestOptionsThatCannotBeAreErrorsThatNameTheField(t *testing.T) {
	t.Parallel()
	breaker := func(o protection.BreakerOptions) error { _, err := protection.NewBreaker(o); return err }
	bulkhead := func(o protection.BulkheadOptions) error { _, err := protection.NewBulkhead(o); return err }
	bucket := func(o protection.TokenBucketOptions) error { _, err := protection.NewTokenBucket(o); return err }
	for _, c := range []struct {
		err   error
		field string // empty: no error
	}{
		{breaker(protection.BreakerOptions{}), ""},
		{breaker(protection.BreakerOptions{FailureRatio: 1, MinCalls: 1, Window: 1, OpenFor: 1, CloseUnder: 1}), ""},
		{breaker(protection.BreakerOptions{FailureRatio: math.NaN()}), "BreakerOptions.FailureRatio"},
		{breaker(protection.BreakerOptions{FailureRatio: -0.1}), "BreakerOptions.FailureRatio"},
		{breaker(protection.BreakerOptions{FailureRatio: 1.01}), "BreakerOptions.FailureRatio"},
		{breaker(protection.BreakerOptions{FailureRatio: math.Inf(1)}), "BreakerOptions.FailureRatio"},
		{breaker(protection.BreakerOptions{MinCalls: -1}), "BreakerOptions.MinCalls"},
		{breaker(protection.BreakerOptions{Window: -1}), "BreakerOptions.Window"},
		{breaker(protection.BreakerOptions{OpenFor: -1}), "BreakerOptions.OpenFor"},
		{breaker(protection.BreakerOptions{CloseUnder: -1}), "BreakerOptions.CloseUnder"},
		{bulkhead(protection.BulkheadOptions{MaxConcurrent: 1}), ""},
		{bulkhead(protection.BulkheadOptions{}), "BulkheadOptions.MaxConcurrent"},
		{bulkhead(protection.BulkheadOptions{MaxConcurrent: -1}), "BulkheadOptions.MaxConcurrent"},
		{bulkhead(protection.BulkheadOptions{MaxConcurrent: 1, MaxQueue: -1}), "BulkheadOptions.MaxQueue"},
		{bulkhead(protection.BulkheadOptions{MaxConcurrent: 1, MaxWait: -time.Second}), "BulkheadOptions.MaxWait"},
		{bucket(protection.TokenBucketOptions{Rate: math.Inf(1)}), ""},
		{bucket(protection.TokenBucketOptions{Rate: 1e300}), ""},
		{bucket(protection.TokenBucketOptions{}), "TokenBucketOptions.Rate"},
		{bucket(protection.TokenBucketOptions{Rate: -1}), "TokenBucketOptions.Rate"},
		{bucket(protection.TokenBucketOptions{Rate: math.NaN()}), "TokenBucketOptions.Rate"},
		{bucket(protection.TokenBucketOptions{Rate: math.Inf(-1)}), "TokenBucketOptions.Rate"},
		{bucket(protection.TokenBucketOptions{Rate: 1, Burst: -1}), "TokenBucketOptions.Burst"},
	} {
		if c.field == "" {
			assert.NoError(t, c.err)
			continue
		}
		assert.Error(t, c.err, c.field)
		assert.True(t, strings.Contains(c.err.Error(), c.field+" is "), c.err)
	}
}
