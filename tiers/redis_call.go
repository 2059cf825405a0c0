package tiers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/protection"
)

// operation is what a call does.
type operation uint8

const (
	opGet operation = iota
	opSet
	opDelete
)

func (o operation) String() string { return [...]string{"get", "set", "delete"}[o] }

// call is one operation on its way: admitted, sent in a batch, decided once. Its commands belong to the goroutine that
// runs the batch until done is closed.
type call struct {
	op       operation
	keys     []string  // Redis keys of one node; one key unless op is opDelete
	key      [1]string // the array behind keys, if it is one key
	envelope []byte    // for opSet
	until    time.Time // for opSet: when the value's physical life ends

	pttl pttlCmd
	get  getCmd
	set  *redis.StatusCmd // nil if the value had no life left when its turn came
	dels []*redis.IntCmd  // each has its own result, if own
	own  bool             // the pipeline has ended, and the commands carry what came of it

	node     *node
	slot     protection.Permit // of the bulkhead: ends when the call has really ended
	deadline time.Time
	left     atomic.Bool // its caller has gone
	decided  atomic.Bool
	done     chan struct{} // closed when decided
	err      error         // good once done is closed
}

// newCall returns a call for one key.
func newCall(op operation, key string) *call {
	c := &call{op: op, key: [1]string{key}}
	c.keys = c.key[:]
	return c
}

// do runs c and returns its error. It returns by ctx's end and by the tier's Timeout, whichever is first; the call may
// go on behind it.
func (r *Redis) do(ctx context.Context, c *call) error {
	if !r.gate.enter() {
		return ErrClosed
	}
	now := time.Now()
	c.done = make(chan struct{})
	c.deadline = now.Add(r.opt.Timeout)
	c.node = r.nodeFor(ctx, c.keys[0])
	c.node.used.Store(int64(now.Sub(r.born)))
	err := r.admit(ctx, c)
	if err != nil {
		r.gate.leave()
	} else {
		r.submit(ctx, c)
		err = r.await(ctx, c)
	}
	r.counts.note(err)
	return err
}

// admit takes a slot for c. The breaker is only asked, since it judges batches: the batch takes its permit when it is sent.
func (r *Redis) admit(ctx context.Context, c *call) (err error) {
	if err = c.node.breaker.Ready(); err != nil {
		return err
	}
	c.slot, err = r.slots.Acquire(ctx)
	return err
}

// await returns the result of c, or ctx's error if that ends first. It needs no timer: every call is in a batch by its
// deadline, and the batch watches that.
func (r *Redis) await(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		c.left.Store(true)
		return ctx.Err()
	}
}

// decide sets the result of c, unless it has one, and reports whether it did.
func (c *call) decide(err error) bool {
	if !c.decided.CompareAndSwap(false, true) {
		return false
	}
	c.err = err
	close(c.done)
	return true
}

// end gives back what c holds when nothing of it runs any more. It must have been decided.
func (r *Redis) end(c *call) {
	c.node.flying.Add(-1)
	c.slot.Done(protection.Ignored)
	r.gate.leave()
}

// enqueue adds the commands of c to the pipeline, in the order in which Redis is to run them.
func (c *call) enqueue(ctx context.Context, pipe redis.Pipeliner) {
	switch c.op {
	case opGet:
		var key any = c.keys[0]
		c.pttl.DurationCmd = redis.NewDurationCmd(ctx, time.Millisecond, "pttl", key)
		c.get.StringCmd = redis.NewStringCmd(ctx, "get", key)
		_ = pipe.Process(ctx, &c.pttl) //nolint:errcheck // a pipeline only collects here
		_ = pipe.Process(ctx, &c.get)  //nolint:errcheck // as above
	case opSet:
		if time.Until(c.until) >= time.Millisecond {
			c.set = redis.NewStatusCmd(ctx, "set", c.keys[0], c.envelope, "px", &timeLeft{c.until})
			_ = pipe.Process(ctx, c.set) //nolint:errcheck // a pipeline only collects here
		}
	case opDelete:
		c.dels = make([]*redis.IntCmd, len(c.keys))
		for i, key := range c.keys {
			c.dels[i] = pipe.Unlink(ctx, key)
		}
	}
}

// result returns what c's commands tell about Redis, and their error, nil for an absent key. failed is the
// pipeline's own error if no command has one: then nothing was sent.
func (c *call) result(failed error) (protection.Outcome, error) {
	err := failed
	if errors.Is(err, errNotSent) {
		return protection.Ignored, &callError{c.op.String(), err}
	}
	if c.own = err == nil; c.own {
		err = c.commandError()
	}
	if err == nil || errors.Is(err, redis.Nil) {
		return protection.Success, nil
	}
	outcome := classify(err)
	if outcome == protection.Timeout {
		return outcome, ErrTimeout
	}
	return outcome, &callError{c.op.String(), err}
}

func (c *call) commandError() error {
	switch {
	case c.op == opGet:
		if err := c.pttl.Err(); err != nil {
			return err
		}
		return c.get.Err()
	case c.op == opDelete:
		for _, d := range c.dels {
			if err := d.Err(); err != nil {
				return err
			}
		}
		return nil
	case c.set == nil:
		return nil
	case c.set.Err() == nil && c.set.Val() != "OK":
		return fmt.Errorf("unexpected answer of %d bytes", len(c.set.Val()))
	default:
		return c.set.Err()
	}
}
