package tiers

import (
	"context"
	"errors"
	"sync"
)

// deletesPerCall bounds the commands of one pipeline of deletions.
const deletesPerCall = 128

// deleteKeys deletes Redis keys, one command each, since keys of several slots cannot share one; the commands of one
// node share pipelines.
func (r *Redis) deleteKeys(ctx context.Context, rks []string) error {
	if len(rks) == 0 {
		return nil
	}
	errs := make([]error, len(rks))
	parts := r.byNode(ctx, rks)
	if len(parts) == 1 {
		r.deletePart(ctx, rks, parts[0], errs)
		return errors.Join(errs...)
	}
	var running sync.WaitGroup
	limit := make(chan struct{}, directCalls)
	for _, positions := range parts {
		limit <- struct{}{}
		running.Go(func() {
			defer func() { <-limit }()
			r.deletePart(ctx, rks, positions, errs)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// byNode returns the positions of rks in parts of one node each.
func (r *Redis) byNode(ctx context.Context, rks []string) [][]int {
	open := map[*node]int{} // node → index of its last part
	var parts [][]int
	for i, rk := range rks {
		n := r.nodeFor(ctx, rk)
		at, ok := open[n]
		if !ok || len(parts[at]) == deletesPerCall {
			at = len(parts)
			open[n] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], i)
	}
	return parts
}

// deletePart deletes the keys at the positions and leaves their errors there.
func (r *Redis) deletePart(ctx context.Context, rks []string, positions []int, errs []error) {
	c := &call{op: opDelete, keys: make([]string, len(positions))}
	for i, p := range positions {
		c.keys[i] = rks[p]
	}
	err := r.do(ctx, c)
	ran := errors.As(err, new(*callError)) // else it has been decided by a limit, and its commands may run yet
	for i, p := range positions {
		failed := err
		if ran && c.own {
			failed = nil
			if e := c.dels[i].Err(); e != nil {
				failed = &callError{c.op.String(), e}
			}
		}
		if failed != nil {
			errs[p] = &keyError{p, failed}
			continue
		}
		r.counts.deletes.Add()
	}
}
