package protection

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// ErrClosed is the error of a call of what has been closed. The work has not started, but it is no refusal: it will never.
var ErrClosed = errors.New("protection: closed")

// ErrNested is the reason of a refusal: work that runs in a pool asked the same pool to run more and to wait for it, which
// would wedge the pool once all its workers did so.
var ErrNested = errors.New("called from inside itself")

// PoolOptions says how much work a [Pool] runs, and for how long.
type PoolOptions struct {
	Name string // a label for errors and alarms

	Workers  int           // how many tasks may run at once; required
	MaxQueue int           // how many more may wait for a worker; default 0: refuse at once when all are busy
	MaxWait  time.Duration // the longest wait in the queue; default 1 s
	Timeout  time.Duration // the longest run of a task that its caller waits for; default 0: as long as the caller's ctx allows

	Observer observe.Observer // is told, in order, on a goroutine of their own, of zombies that stay and have gone, and of panics in them; nil for none
}

// withDefaults returns o with its defaults filled in, or an error that names the field.
func (o PoolOptions) withDefaults() (PoolOptions, error) {
	switch {
	case o.Workers < 1 || o.Workers > math.MaxInt32:
		return o, fmt.Errorf("protection: PoolOptions.Workers is %d: it must be at least 1 and at most 2^31-1", o.Workers)
	case o.MaxQueue < 0 || o.MaxQueue > math.MaxInt32:
		return o, fmt.Errorf("protection: PoolOptions.MaxQueue is %d: it must not be negative, nor above 2^31-1", o.MaxQueue)
	case o.MaxWait < 0:
		return o, fmt.Errorf("protection: PoolOptions.MaxWait is %v: it must not be negative", o.MaxWait)
	case o.Timeout < 0:
		return o, fmt.Errorf("protection: PoolOptions.Timeout is %v: it must not be negative", o.Timeout)
	}
	if o.MaxWait == 0 {
		o.MaxWait = defaultMaxWait
	}
	return o, nil
}
