package tiers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// node is what the tier knows of one Redis node: a dead one must not take the calls to the others with it.
type node struct {
	breaker *protection.Breaker
	health  health
	flying  atomic.Int64 // calls that were sent or wait in the lane
	used    atomic.Int64 // the time of the last call, since the tier was made
	lane    lane
}

func (r *Redis) newNode(addr string) (*node, error) {
	n := &node{health: health{source: r.opt.Name, addr: addr, observer: r.opt.Observer}}
	o, user := r.opt.Breaker, r.opt.Breaker.Observer
	o.Observer = observe.Func(func(e observe.Event) {
		n.health.follow(e)
		observe.Emit(user, e)
	})
	var err error
	n.used.Store(int64(time.Since(r.born)))
	n.breaker, err = protection.NewBreaker(o)
	if err != nil {
		return nil, fmt.Errorf("tiers: RedisOptions.Breaker: %w", err)
	}
	return n, nil
}

// nodeFor returns the node that serves the Redis key. It never waits: until a cluster's slots are known, all keys are
// one node's.
func (r *Redis) nodeFor(ctx context.Context, key string) *node {
	if r.cluster == nil || !r.mapped.Load() {
		return r.single
	}
	client, err := r.cluster.MasterForKey(ctx, key) // a look into a table, once the slots are known
	if err != nil {
		return r.single
	}
	if n := r.nodes.all()[client]; n != nil {
		return n
	}
	n, err := r.nodes.add(client, r.newNode, time.Since(r.born))
	if err != nil { // not possible: newNode has succeeded with the same options
		return r.single
	}
	return n
}

// nodes are the masters of a cluster by their clients. The map is never changed, only replaced.
type nodes struct {
	mu  sync.Mutex // of replacing
	now atomic.Pointer[map[*redis.Client]*node]
}

func (ns *nodes) all() map[*redis.Client]*node {
	if m := ns.now.Load(); m != nil {
		return *m
	}
	return nil
}

// add returns the node of the client, making it if there is none. On that occasion, which is rare, it leaves out the
// nodes that have had no call for a while: the cluster has dropped them.
func (ns *nodes) add(client *redis.Client, create func(addr string) (*node, error), now time.Duration) (*node, error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.all()[client]; n != nil {
		return n, nil
	}
	n, err := create(client.Options().Addr)
	if err != nil {
		return nil, err
	}
	next := map[*redis.Client]*node{client: n}
	for c, n := range ns.all() {
		if now-time.Duration(n.used.Load()) < forgetAfter {
			next[c] = n
		}
	}
	ns.now.Store(&next)
	return n, nil
}

const forgetAfter = 10 * time.Minute

// learn notes what the end of a pipeline says about the cluster's slots.
func (r *Redis) learn(ctx context.Context, err error) {
	if r.cluster == nil {
		return
	}
	switch classify(err) {
	case protection.Success:
		r.mapped.Store(true)
	case protection.Failure, protection.Timeout:
		r.cluster.ReloadState(ctx) // it returns at once and has nothing to do with ctx
	default:
	}
}
