package tiers

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/internal/contain"
	"github.com/snowshed-go/snowshed/protection"
)

// Calls reach Redis in batches, each one pipeline of one node. With few calls in flight every call is a batch of its own
// on a connection of its own, which is quickest. With many, a call joins the node's lane, which sends one batch at a
// time: what arrives while one is under way makes up the next, so batches grow with the load and cost Redis and the
// process one write and one read each.
const (
	directCalls = 8        // with no more in flight than this, calls go on their own
	hotBatch    = 4        // while batches are at least this large, the lane is worth its wait
	maxBatch    = 256      // more calls than this make a batch slow without making it cheaper
	largeCall   = 16 << 10 // a write of more bytes goes on its own and holds nobody up
)

// submit sends c on its way.
func (r *Redis) submit(ctx context.Context, c *call) {
	l := &c.node.lane
	n := c.node.flying.Add(1)
	if n <= directCalls && !l.hot.Load() || len(c.envelope) > largeCall || len(c.keys) > 1 {
		go r.runDirect(context.WithoutCancel(ctx), c)
		return
	}
	c.queued = true
	if l.push(c) {
		go r.runLane(l)
	}
}

// runDirect sends c alone.
func (r *Redis) runDirect(ctx context.Context, c *call) {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { r.expire(c) })
	defer stop()
	r.run(ctx, []*call{c})
}

// runLane sends what gathers in the lane, batch by batch, until there is none. A batch that outlives the tier's Timeout
// is left to itself, and another goroutine goes on: a connection that hangs does not hold up the calls behind it.
func (r *Redis) runLane(l *lane) {
	for {
		runtime.Gosched() // whom the last batch has answered may be about to ask again: let them join this one
		batch := r.waiting(l.take())
		if batch == nil {
			return
		}
		if len(batch) == 0 {
			continue
		}
		if r.runBatch(l, batch) {
			return
		}
	}
}

// runBatch sends the calls together. It reports whether the lane went on without it.
func (r *Redis) runBatch(l *lane, batch []*call) (overtaken bool) {
	ctx, cancel := context.WithTimeout(context.Background(), r.opt.Timeout) //nolint:forbidigo // a batch belongs to no one caller
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		for _, c := range batch {
			r.expire(c)
		}
		r.runLane(l)
	})
	r.run(ctx, batch)
	return !stop()
}

// waiting takes the reads from the batch that nobody waits for any more. Writes are made whoever waits.
func (r *Redis) waiting(batch []*call) []*call {
	kept := batch[:0]
	for _, c := range batch {
		if c.op == opGet && (c.left.Load() || c.decided.Load()) {
			r.decide(c, context.Canceled, protection.Ignored)
			r.end(c)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// errNotSent stands if the pipeline ended without a word, as by runtime.Goexit in a hook of the client's.
var errNotSent = errors.New("the pipeline did not return")

// run sends the calls in one pipeline, decides them and ends them.
func (r *Redis) run(ctx context.Context, batch []*call) {
	failed := errNotSent
	defer func() {
		for _, c := range batch {
			err, outcome := c.result(failed)
			r.decide(c, err, outcome)
			r.end(c)
		}
	}()
	pipe := r.rdb.Pipeline()
	for _, c := range batch {
		c.enqueue(ctx, pipe)
		c.sent.Store(true)
	}
	cmds, err := contain.Call(func() ([]redis.Cmder, error) { return pipe.Exec(ctx) })
	failed = unexplained(cmds, err)
	r.learn(err)
}

// unexplained returns err unless a command carries an error of its own: then each call has its own result.
func unexplained(cmds []redis.Cmder, err error) error {
	if err == nil {
		return nil
	}
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return nil
		}
	}
	return err
}

// lane is where the calls of one node gather. The zero lane is empty.
type lane struct {
	hot   atomic.Bool // the last batch was large
	mu    sync.Mutex
	queue []*call
	busy  bool // a goroutine runs the lane
}

// push adds c and reports whether the lane needs a goroutine.
func (l *lane) push(c *call) (start bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, c)
	start = !l.busy
	l.busy = true
	return start
}

// take returns the next batch, or nil, and then the lane is idle.
func (l *lane) take() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), maxBatch)
	l.hot.Store(n >= hotBatch)
	if n == 0 {
		l.busy = false
		return nil
	}
	batch := l.queue[:n:n]
	if n == len(l.queue) {
		l.queue = nil
	} else {
		l.queue = l.queue[n:]
	}
	return batch
}
