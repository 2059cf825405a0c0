package tiers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// Redis is the tier that a fleet shares, over a go-redis client for a single node, a cluster or a sentinel group. Caches
// use it through views. It is safe for concurrent use.
//
// Every call runs on a context of the tier's own, with the tier's Timeout, so that callers who give up cost Redis no
// connections; the caller itself returns as soon as its own ctx ends. A ctx that cannot end, as of context.WithoutCancel,
// is cheapest when few calls are in flight: then the call needs no goroutine of its own, and Timeout still bounds it.
// Calls pass a circuit breaker per node and one bulkhead. Reads and writes go to primaries only.
//
// The client stays the user's: the tier never closes it. What it should be set to is said at [NewRedis].
type Redis struct {
	opt     RedisOptions
	born    time.Time
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil unless rdb is one
	bounded bool                 // the client ends its calls by their deadlines

	slots   *protection.Bulkhead
	single  *node       // the only node, or all of them until the cluster's slots are known
	mapped  atomic.Bool // the cluster's slots are known
	nodes   nodes
	gate    *gate
	workers workers
	counts  redisCounters
	buffers sync.Pool // *[]byte, for payloads on their way into an envelope
}

// NewRedis returns a tier over rdb, or an error that names what cannot be. It never dials: Redis may be down.
//
// An error is: a nil client; a malformed address; a client that reads from replicas (ReadOnly, RouteByLatency,
// RouteRandomly), since a replica may hold what an invalidation has removed; a Ring, which moves keys to another node and
// back when one fails. These settings of the client weaken the tier and are reported in one RedisMisuse event:
//
//   - MaxRetries above 1: retries multiply the load when Redis is slow. Set -1 or 1;
//   - ContextTimeoutEnabled false: a call that outlives the tier's Timeout keeps its connection and its slot until the
//     client's own timeouts end. Set true;
//   - ReadTimeout or WriteTimeout off or above 1 s, DialTimeout off or above 1 s: the same. 500 ms is ample;
//   - MaintNotifications not disabled: they relax timeouts to 10 s.
func NewRedis(rdb redis.UniversalClient, o RedisOptions) (*Redis, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	advice, bounded, err := checkClient(rdb)
	if err != nil {
		return nil, err
	}
	slots, err := protection.NewBulkhead(protection.BulkheadOptions{
		Name: o.Name, MaxConcurrent: o.MaxConcurrent, MaxQueue: queuePerSlot * o.MaxConcurrent, MaxWait: o.Timeout,
	})
	if err != nil {
		return nil, err
	}
	r := &Redis{opt: o, gate: newGate(), born: time.Now(), rdb: rdb, bounded: bounded, slots: slots}
	r.cluster, _ = rdb.(*redis.ClusterClient) //nolint:errcheck // nil is the answer for other clients
	r.workers = workers{run: r.runDirect, idle: make(chan job), quit: make(chan struct{})}
	if r.single, err = r.newNode(""); err != nil {
		return nil, err
	}
	if advice != "" {
		observe.Emit(o.Observer, observe.Event{Kind: observe.RedisMisuse, Level: observe.Warn, Source: o.Name, Message: advice})
	}
	return r, nil
}

// Close makes later calls return [ErrClosed] and waits until the running ones have ended, or returns ctx's error. A call
// that Redis leaves unanswered ends with the timeouts of the client. Closing again waits again. It does not close the
// client.
func (r *Redis) Close(ctx context.Context) error {
	err := r.gate.close(ctx)
	r.workers.stop()
	return err
}

// Ready returns nil if a call would be admitted now: otherwise [ErrClosed], or the refusal of the circuit breaker. In a
// cluster it is nil while any node's breaker admits calls.
func (r *Redis) Ready() error {
	if r.gate.isClosed() {
		return ErrClosed
	}
	if !r.mapped.Load() {
		return r.single.breaker.Ready()
	}
	var errs []error
	for _, n := range r.nodes.all() {
		err := n.breaker.Ready()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
