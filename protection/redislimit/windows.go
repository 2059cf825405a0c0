package redislimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/internal/contain"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

//go:embed window.lua
var source string

// Windows limit how many units of work all processes together start within lengths of time, by counters in Redis that one
// script reads and writes: a call counts in all windows or in none, and a refused one leaves them as they are. The time is
// that of the Redis server. It is a [protection.Policy]. Safe for concurrent use.
//
// Fixed windows are exact for each window. Sliding windows are the approximation by two counters (J. Desgats, "How we
// built rate limiting capable of scaling to millions of domains", Cloudflare 2017): never more than Limit in an aligned
// window, and less than twice of it in any, which takes callers that wait for the worst moment.
//
// A counter lives for two windows and a second after its last use. A reply that is lost after the script has run is a unit
// that nobody used: a client with MaxRetries may count a call more than once, never less.
type Windows struct {
	opt     Options
	rdb     redis.Scripter
	script  *redis.Script
	keys    []string
	args    []any // of the script, after the first
	least   int   // of the limits
	breaker *protection.Breaker
	down    atomic.Bool
}

// retryDown is how long Redis is left alone once it is down, and the RetryAfter of calls that are refused for it.
const retryDown = time.Second

// New returns a limit that counts through rdb, a client for a single node, a cluster or a sentinel group, or an error that
// names what cannot be. It never dials. The client stays the caller's.
func New(rdb redis.Scripter, o Options) (*Windows, error) {
	if v := reflect.ValueOf(rdb); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("redislimit: New: the client is nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	breaker, err := protection.NewBreaker(protection.BreakerOptions{
		Name: o.Name, MinCalls: 2, OpenFor: retryDown, CloseUnder: o.Timeout,
	})
	if err != nil {
		return nil, err
	}
	w := &Windows{opt: o, rdb: rdb, script: redis.NewScript(source), breaker: breaker, least: o.Windows[0].Limit}
	sliding := 0
	if o.Sliding {
		sliding = 1
	}
	w.args = append(w.args, sliding)
	for _, window := range o.Windows {
		w.keys = append(w.keys, window.Key)
		w.args = append(w.args, window.Limit, window.Length.Microseconds())
		w.least = min(w.least, window.Limit)
	}
	return w, nil
}

// Acquire takes one unit, or returns a [*protection.RejectedError] with [protection.ErrLimited] and the time until there
// may be room. It waits for Redis for at most Timeout; without an answer, WhenDown decides, and the events RedisDown and
// RedisUp tell of it. While Redis is down, one call a second asks it. If ctx ends first, its error is returned, and the
// unit may have been taken. The permit holds nothing: a unit is spent when it is taken, however the work ends.
func (w *Windows) Acquire(ctx context.Context) (protection.Permit, error) {
	return w.AcquireN(ctx, 1)
}

// AcquireN is [Windows.Acquire] for work of n units: it takes all of them or none. More than the least Limit are never
// given, which a RetryAfter of math.MaxInt64 says, and less than 1 is an error.
func (w *Windows) AcquireN(ctx context.Context, n int) (protection.Permit, error) {
	if err := ctx.Err(); err != nil {
		return protection.Permit{}, err
	}
	if n < 1 {
		return protection.Permit{}, fmt.Errorf("redislimit: %q cannot give %d units: it must be at least 1", w.opt.Name, n)
	}
	if n > w.least {
		return protection.Permit{}, w.refuse(math.MaxInt64)
	}
	asking, err := w.breaker.Acquire(ctx)
	if err != nil {
		return w.unanswered(ctx)
	}
	retry, err := w.ask(ctx, n)
	switch {
	case err == nil:
		asking.Done(protection.Success)
		w.tell(nil)
	case ctx.Err() != nil:
		asking.Done(protection.Ignored)
		return protection.Permit{}, ctx.Err()
	default:
		asking.Done(protection.Failure)
		w.tell(err)
		return w.unanswered(ctx)
	}
	if retry > 0 {
		return protection.Permit{}, w.refuse(retry)
	}
	return protection.NewPermit(nil), nil
}

// ask runs the script. It returns after how long there may be room, 0 if the units have been taken. The call has a ctx of
// its own, so that callers who give up cost no connections, and neither they nor a client that does not look at its ctx
// make ask wait for longer than Timeout.
func (w *Windows) ask(ctx context.Context, n int) (time.Duration, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.opt.Timeout)
	result := contain.Go(func() (time.Duration, error) {
		defer cancel()
		return w.run(bounded, n)
	})
	late := time.NewTimer(w.opt.Timeout)
	defer late.Stop()
	select {
	case r := <-result:
		return r.Value, r.Err
	case <-late.C:
		return 0, context.DeadlineExceeded
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (w *Windows) run(ctx context.Context, n int) (time.Duration, error) {
	args := append([]any{n}, w.args...)
	reply, err := w.script.Run(ctx, w.rdb, w.keys, args...).Int64Slice() // again with the source after NOSCRIPT
	switch {
	case err != nil:
		return 0, err
	case len(reply) == 1 && reply[0] == 1:
		return 0, nil
	case len(reply) == 3 && reply[0] == 0 && reply[1] > 0:
		return time.Duration(reply[1]) * time.Microsecond, nil
	default:
		return 0, fmt.Errorf("redislimit: the script answered %v", reply)
	}
}

// unanswered is what becomes of a call that Redis has not judged.
func (w *Windows) unanswered(ctx context.Context) (protection.Permit, error) {
	switch {
	case ctx.Err() != nil:
		return protection.Permit{}, ctx.Err()
	case w.opt.WhenDown == Refuse:
		return protection.Permit{}, w.refuse(retryDown)
	default:
		return protection.NewPermit(nil), nil
	}
}

func (w *Windows) refuse(retry time.Duration) error {
	return &protection.RejectedError{Name: w.opt.Name, Policy: "redis windows", Reason: protection.ErrLimited, RetryAfter: retry}
}

// tell tells of the first failure, and of the first answer after it.
func (w *Windows) tell(err error) {
	if isDown := err != nil; !w.down.CompareAndSwap(!isDown, isDown) {
		return
	}
	e := observe.Event{Kind: observe.RedisUp, Level: observe.Info, Source: w.opt.Name, Message: "Redis answers again: the shared limit holds"}
	if err != nil {
		does := "calls are admitted without it"
		if w.opt.WhenDown == Refuse {
			does = "calls are refused"
		}
		e = observe.Event{
			Kind: observe.RedisDown, Level: observe.Critical, Source: w.opt.Name, Err: err,
			Message: "Redis does not answer for the shared limit: " + does,
		}
	}
	observe.Emit(w.opt.Observer, e)
}
