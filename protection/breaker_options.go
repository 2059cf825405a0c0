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
	Window       time.Duration // how far back calls count, in ten steps of at least a millisecond; default 10 s
	OpenFor      time.Duration // time from the trip to the first trial call, and from one trial's start to the next, whatever has become of it, but that at most three are out; default 5 s
	CloseUnder   time.Duration // a successful trial that took less closes the breaker, a slower one does not; default 250 ms
	TrialTimeout time.Duration // the Limit of a trial call's permit; default OpenFor
	Ramp         time.Duration // after a trial has closed it, admits 10, 25 and 50 % of the calls for a third of this time each; default 0: all at once

	SlowAfter time.Duration // a call that took longer is slow, whatever it came to; default 0: none is
	SlowRatio float64       // trips when more than this part of the calls was slow too, as FailureRatio; default 0.5 if SlowAfter is set

	// A call that has been in flight for longer counts as a timeout before it returns, an eighth of this time later at the
	// latest. Set it to the execution timeout, or a little above. It costs each call two writes to memory that all calls
	// share. Default 0: a call counts when it ends.
	OverdueAfter time.Duration

	// Classify says what an error other than nil means, for Do, DoValue and Permit.Outcome; default the function Classify.
	Classify Classifier

	Shadow   bool             // decides and tells as ever, but refuses nothing: to try options out
	Observer observe.Observer // is told of trips, recoveries and hung trials, in order, on a goroutine of their own; nil for none
	Clock    *Clock           // the time to go by; nil for exact readings
}

// The defaults of BreakerOptions.
const (
	defaultRatio      = 0.5
	defaultMinCalls   = 20
	defaultWindow     = 10 * time.Second
	defaultOpenFor    = 5 * time.Second
	defaultCloseUnder = 250 * time.Millisecond
)

// rules is validated options with their defaults filled in. It is immutable.
type rules struct {
	BreakerOptions
	failurePart, slowPart uint64 // the ratios, of whole
}

// whole is 1 in integers, so that exactly half is never more than half.
const whole = 1_000_000

func newRules(o BreakerOptions) (*rules, error) {
	if o.MinCalls < 0 {
		return nil, fmt.Errorf("protection: BreakerOptions.MinCalls is %d: it must not be negative", o.MinCalls)
	}
	for _, d := range []struct {
		field string
		value *time.Duration
		std   time.Duration
	}{
		{"Window", &o.Window, defaultWindow},
		{"OpenFor", &o.OpenFor, defaultOpenFor},
		{"CloseUnder", &o.CloseUnder, defaultCloseUnder},
		{"TrialTimeout", &o.TrialTimeout, 0},
		{"Ramp", &o.Ramp, 0},
		{"SlowAfter", &o.SlowAfter, 0},
		{"OverdueAfter", &o.OverdueAfter, 0},
	} {
		if *d.value < 0 {
			return nil, fmt.Errorf("protection: BreakerOptions.%s is %v: it must not be negative", d.field, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.std
		}
	}
	for field, ratio := range map[string]*float64{"FailureRatio": &o.FailureRatio, "SlowRatio": &o.SlowRatio} {
		if math.IsNaN(*ratio) || *ratio < 0 || *ratio > 1 {
			return nil, fmt.Errorf("protection: BreakerOptions.%s is %v: it must be above 0 and at most 1, or 0 for the default", field, *ratio)
		}
		if *ratio == 0 {
			*ratio = defaultRatio
		}
	}
	if o.MinCalls == 0 {
		o.MinCalls = defaultMinCalls
	}
	if o.TrialTimeout == 0 {
		o.TrialTimeout = o.OpenFor
	}
	if o.Classify == nil {
		o.Classify = Classify
	}
	part := func(ratio float64) uint64 { return uint64(math.Round(ratio * whole)) }
	return &rules{BreakerOptions: o, failurePart: part(o.FailureRatio), slowPart: part(o.SlowRatio)}, nil
}
