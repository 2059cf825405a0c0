package dbguard

import (
	"context"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// Options says how much load a [Guard] lets through to the database. Only MaxConcurrent is required.
type Options struct {
	Name string // a label for errors and events

	MaxConcurrent int           // connections in use at once, and so statements at the server; required
	MaxQueue      int           // callers that may wait for one; default MaxConcurrent; negative: none
	MaxWait       time.Duration // the longest wait in that queue; default 50 ms
	QPS           float64       // admissions per second (a transaction is one), in the long run; 0: no limit
	Burst         int           // admissions at once after a rest; default QPS/10, at least 1; without QPS it has no meaning
	MaxLifetime   time.Duration // a connection is replaced after 80–100 % of it, so that a fleet's do not end together; default 30 min; negative: never

	Breaker  protection.BreakerOptions // Name and Observer default to those of the guard
	Observer observe.Observer          // is told of what happens; nil for none

	// Dial opens connections to the server in place of the driver; nil for the driver's own way.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	defaultMaxWait     = 50 * time.Millisecond
	defaultMaxLifetime = 30 * time.Minute
)

// withDefaults returns o with its defaults filled in, or an error that names the field.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.MaxConcurrent < 1:
		return o, fmt.Errorf("dbguard: Options.MaxConcurrent is %d: it must be at least 1", o.MaxConcurrent)
	case o.MaxWait < 0:
		return o, fmt.Errorf("dbguard: Options.MaxWait is %v: it must not be negative", o.MaxWait)
	case math.IsNaN(o.QPS) || o.QPS < 0:
		return o, fmt.Errorf("dbguard: Options.QPS is %v: it must be above 0, or 0 for no limit", o.QPS)
	case o.Burst < 0:
		return o, fmt.Errorf("dbguard: Options.Burst is %d: it must not be negative", o.Burst)
	}
	switch {
	case o.MaxQueue == 0:
		o.MaxQueue = o.MaxConcurrent
	case o.MaxQueue < 0:
		o.MaxQueue = 0
	}
	if o.MaxWait == 0 {
		o.MaxWait = defaultMaxWait
	}
	if o.MaxLifetime == 0 {
		o.MaxLifetime = defaultMaxLifetime
	}
	if o.Breaker.Name == "" {
		o.Breaker.Name = o.Name
	}
	if o.Breaker.Observer == nil {
		o.Breaker.Observer = o.Observer
	}
	return o, nil
}
