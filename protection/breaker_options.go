package protection

import (
	"fmt"
	"math"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// BreakerOptions says when a [Breaker] trips and when it closes again. The zero value is a good default.
type BreakerOptions struct {
	Name string // a label for errors and events

	FailureRatio float64       // trips when more than this part of the calls failed or timed out, 0 < r ≤ 1; default 0.5; 1 trips when every call did
	MinCalls     int           // and only if the window holds more than this many judged calls; default 20
	Window       time.Duration // how far back calls count, in ten steps; default 10 s
	OpenFor      time.Duration // time from the trip to the first trial call, and from one trial's start to the next; default 5 s
	CloseUnder   time.Duration // a successful trial that took less closes the breaker, a slower one does not; default 250 ms

	Observer observe.Observer // is told of trips and recoveries, outside of all locks; nil for none
}

// The defaults of BreakerOptions.
const (
	defaultFailureRatio = 0.5
	defaultMinCalls     = 20
	defaultWindow       = 10 * time.Second
	defaultOpenFor      = 5 * time.Second
	defaultCloseUnder   = 250 * time.Millisecond
)

// withDefaults returns o with its defaults filled in, or an error that names the field.
func (o BreakerOptions) withDefaults() (BreakerOptions, error) {
	if math.IsNaN(o.FailureRatio) || o.FailureRatio < 0 || o.FailureRatio > 1 {
		return o, fmt.Errorf("protection: BreakerOptions.FailureRatio is %v: it must be above 0 and at most 1, or 0 for the default", o.FailureRatio)
	}
	if o.MinCalls < 0 {
		return o, fmt.Errorf("protection: BreakerOptions.MinCalls is %d: it must not be negative", o.MinCalls)
	}
	if o.FailureRatio == 0 {
		o.FailureRatio = defaultFailureRatio
	}
	if o.MinCalls == 0 {
		o.MinCalls = defaultMinCalls
	}
	for _, d := range []struct {
		field string
		value *time.Duration
		std   time.Duration
	}{
		{"Window", &o.Window, defaultWindow},
		{"OpenFor", &o.OpenFor, defaultOpenFor},
		{"CloseUnder", &o.CloseUnder, defaultCloseUnder},
	} {
		if *d.value < 0 {
			return o, fmt.Errorf("protection: BreakerOptions.%s is %v: it must not be negative", d.field, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.std
		}
	}
	return o, nil
}
