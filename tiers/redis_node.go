package tiers

import (
	"context"
	"sync/atomic"
	"time"

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
	return n, err
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
	if n, ok := r.nodes.Load(client); ok {
		return n.(*node) //nolint:forcetypeassert // the map holds nothing else
	}
	made, err := r.newNode(client.Options().Addr)
	if err != nil {
		return r.single
	}
	n, loaded := r.nodes.LoadOrStore(client, made)
	if !loaded {
		r.forget()
	}
	return n.(*node) //nolint:forcetypeassert // as above
}

// forget drops nodes that have had no call for a while. It runs when a node was added, which is rare.
func (r *Redis) forget() {
	r.nodes.Range(func(client, n any) bool {
		last := time.Duration(n.(*node).used.Load()) //nolint:forcetypeassert // the map holds nothing else
		if time.Since(r.born)-last > forgetAfter {
			r.nodes.Delete(client)
		}
		return true
	})
}

const forgetAfter = 10 * time.Minute

// learn notes what the end of a pipeline says about the cluster's slots.
func (r *Redis) learn(err error) {
	if r.cluster == nil {
		return
	}
	switch classify(err) {
	case protection.Success:
		r.mapped.Store(true)
	case protection.Failure, protection.Timeout:
		r.cluster.ReloadState(context.Background()) //nolint:forbidigo // it takes no notice of a ctx, and returns at once
	default:
	}
}
