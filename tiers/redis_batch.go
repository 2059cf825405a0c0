package tiers

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	largeCall   = 16 << 10 // a write of more bytes goes on its own and holds nobody up
)

// submit sends c on its way.
func (r *Redis) submit(ctx context.Context, c *call) {
	l := &c.node.lane
	n := c.node.flying.Add(1)
	if n <= directCalls && !l.hot.Load() || len(c.envelope) > largeCall || len(c.keys) > 1 {
		if ctx.Done() == nil && r.bounded {
			r.runHere(ctx, c)
		} else {
			r.workers.start(ctx, c)
		}
		return
	}
	if l.push(c) {
		go r.runLane(l) //nolint:contextcheck // a batch belongs to no one caller
	}
}

// runHere sends c alone on the caller's goroutine, which saves two changes of goroutine, more than half of the cost of a
// quick call. It suits callers whose ctx cannot end before the call does, if the client keeps the call to its deadline.
func (r *Redis) runHere(ctx context.Context, c *call) {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	if b := r.open(ctx, c); b != nil {
		r.run(ctx, b)
	}
}

// runDirect sends c alone, and decides it at its deadline whatever the client does.
func (r *Redis) runDirect(ctx context.Context, c *call) {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	b := r.open(ctx, c)
	if b == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { b.expire(c) })
	defer stop()
	r.run(ctx, b)
}

// runLane sends what gathers in the lane, batch by batch, until there is none. A batch that outlives the tier's Timeout
// is left to itself, and another goroutine goes on: a connection that hangs does not hold up the calls behind it.
func (r *Redis) runLane(l *lane) {
	for {
		runtime.Gosched() // whom the last batch has answered may be about to ask again: let them join this one
		calls := l.take()
		if calls == nil {
			return
		}
		if calls = r.due(calls); len(calls) > 0 && r.runBatch(l, calls) {
			return
		}
	}
}

// runBatch sends the calls together. It reports whether the lane went on without it.
func (r *Redis) runBatch(l *lane, calls []*call) (overtaken bool) {
	ctx, cancel := context.WithTimeout(context.Background(), r.opt.Timeout) //nolint:forbidigo // a batch belongs to no one caller
	defer cancel()
	b := r.open(ctx, calls...)
	if b == nil {
		return false
	}
	watch := b.watch()
	defer watch.Stop()
	stop := context.AfterFunc(ctx, func() { r.runLane(l) })
	r.run(ctx, b)
	return !stop()
}

// due takes the calls out that are not worth sending: those past their deadline, and reads that nobody waits for any
// more. Writes are made whoever waits.
func (r *Redis) due(calls []*call) []*call {
	kept := calls[:0]
	now := time.Now()
	for _, c := range calls {
		switch {
		case !now.Before(c.deadline):
			c.decide(ErrTimeout)
		case c.op == opGet && c.left.Load():
			c.decide(context.Canceled) // nobody reads it
		default:
			kept = append(kept, c)
			continue
		}
		r.end(c)
	}
	return kept
}

// batch is the calls of one pipeline. The breaker judges it as a whole: by the first call that times out, or by the
// worst of its results.
type batch struct {
	calls   []*call
	verdict protection.Permit
	judged  sync.Once
}

// open returns the batch of the calls, admitted by the breaker, or decides and ends them all and returns nil.
func (r *Redis) open(ctx context.Context, calls ...*call) *batch {
	verdict, err := calls[0].node.breaker.Acquire(ctx)
	if err == nil {
		return &batch{calls: calls, verdict: verdict}
	}
	for _, c := range calls {
		c.decide(err)
		r.end(c)
	}
	return nil
}

// judge gives the breaker its result, once. Whoever comes second waits, so that no observer runs once the calls have ended.
func (b *batch) judge(o protection.Outcome) {
	b.judged.Do(func() {
		b.calls[0].node.health.note(o)
		b.verdict.Done(o)
	})
}

// expire decides c as timed out, unless it is decided. The verdict comes second: an observer may take its time over it.
func (b *batch) expire(c *call) {
	if c.decide(ErrTimeout) {
		b.judge(protection.Timeout)
	}
}

// watch expires each call at its deadline. Calls are in the order of their arrival, so also of their deadlines.
func (b *batch) watch() *time.Timer {
	var t *time.Timer
	ready := make(chan struct{})
	calls := b.calls
	t = time.AfterFunc(time.Until(calls[0].deadline), func() {
		<-ready
		for i, c := range calls {
			if left := time.Until(c.deadline); left > 0 {
				calls = calls[i:]
				t.Reset(left)
				return
			}
			b.expire(c)
		}
	})
	close(ready)
	return t
}

// errNotSent stands if the pipeline ended without a word, as by runtime.Goexit in a hook of the client's.
var errNotSent = errors.New("the pipeline ended without a result")

// run sends the batch in one pipeline, decides its calls and ends them.
func (r *Redis) run(ctx context.Context, b *batch) {
	failed := errNotSent
	defer func() {
		sum := protection.Ignored
		for _, c := range b.calls {
			outcome, err := c.result(failed)
			sum = worse(sum, outcome)
			c.decide(err)
		}
		b.judge(sum)
		for _, c := range b.calls {
			r.end(c)
		}
	}()
	pipe := r.rdb.Pipeline()
	for _, c := range b.calls {
		c.enqueue(ctx, pipe)
	}
	cmds, err := contain.Call(func() ([]redis.Cmder, error) { return pipe.Exec(ctx) })
	failed = unexplained(cmds, err)
	r.learn(ctx, err)
}

// worse returns the outcome that weighs more: a failure, a timeout, then a success, which shows that Redis answers.
func worse(a, b protection.Outcome) protection.Outcome {
	for _, o := range [...]protection.Outcome{protection.Failure, protection.Timeout, protection.Success} {
		if a == o || b == o {
			return o
		}
	}
	return protection.Ignored
}

// unexplained returns err unless a command carries an error of its own: then each call has its own result.
func unexplained(cmds []redis.Cmder, err error) error {
	switch {
	case slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Err() != nil }):
		return nil
	case errors.Is(err, redis.Nil): // a word about one key, and no command has it
		return errNotSent
	default:
		return err
	}
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

// take returns the next batch, or nil, and then the lane is idle. A batch is all that has gathered, at most as many calls
// as the bulkhead admits: so what waits when a batch starts is in the next one, which starts within Timeout.
func (l *lane) take() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.queue
	l.queue = nil
	l.busy = batch != nil
	l.hot.Store(len(batch) >= hotBatch)
	return batch
}
