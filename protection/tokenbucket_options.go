package protection

import (
	"fmt"
	"math"
	"time"
)

// TokenBucketOptions says how much work a [TokenBucket] admits.
type TokenBucketOptions struct {
	Name string // a label for errors

	Rate  float64 // units of work per second, in the long run; required; math.Inf(1) for no limit
	Burst int     // how many may start at once after a rest; default a tenth of a second's worth, at least 1

	// WarmUp is how long Rate takes to rise from a third of itself to the whole after the start and after each Restart, for
	// a dependency that is slow while cold; default 0: at once. Such a start has a third of Burst.
	WarmUp time.Duration

	// Clock makes the bucket read coarse time wherever that is safe; nil: exact time always. See [TokenBucket].
	Clock *Clock
}

// withDefaults returns o with its defaults filled in, or an error that names the field.
func (o TokenBucketOptions) withDefaults() (TokenBucketOptions, error) {
	switch {
	case math.IsNaN(o.Rate) || o.Rate <= 0:
		return o, fmt.Errorf("protection: TokenBucketOptions.Rate is %v: it must be above 0", o.Rate)
	case o.Burst < 0:
		return o, fmt.Errorf("protection: TokenBucketOptions.Burst is %d: it must not be negative", o.Burst)
	case o.WarmUp < 0:
		return o, fmt.Errorf("protection: TokenBucketOptions.WarmUp is %v: it must not be negative", o.WarmUp)
	}
	if o.Burst == 0 {
		o.Burst = int(min(math.MaxInt32, max(1, o.Rate/10)))
	}
	return o, nil
}
