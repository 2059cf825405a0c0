package cache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/cache"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/tiers"
)

// The world of these tests: a source whose behaviour a test scripts, caches over it, and what they told their observer.

var errSource = errors.New("the source is down")

const off = -1 // turns off an option that a negative value turns off

// open returns a cache that ends with the test. Its memory is small, so that many can be opened.
func open[K comparable, V any](t *testing.T, o cache.Options[K, V]) *cache.Cache[K, V] {
	t.Helper()
	if o.Name == "" {
		o.Name = "things"
	}
	if o.Local == nil {
		o.Local = newLocal(t, tiers.LocalOptions{MaxBytes: 4 << 20, EpochStripes: 1 << 12})
	}
	c, err := cache.New(o)
	assert.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // after a failure, something may stand for ever
		defer cancel()
		assert.NoError(t, c.Close(ctx))
	})
	return c
}

// roomy holds some ten thousand small values.
var roomy = tiers.LocalOptions{MaxBytes: 32 << 20, EpochStripes: 1 << 12}

func newLocal(t *testing.T, o tiers.LocalOptions) *tiers.Local {
	t.Helper()
	l, err := tiers.NewLocal(o)
	assert.NoError(t, err)
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// source is a table of one column whose every load counts. The zero source answers each load with the number of loads so
// far, at once.
type source struct {
	loads atomic.Int64
	takes atomic.Int64 // nanoseconds that a load lasts

	mu   sync.Mutex
	load func(ctx context.Context, n int) (int, error)
}

func (s *source) Load(ctx context.Context, _ string) (int, error) {
	n := int(s.loads.Add(1))
	s.mu.Lock()
	load := s.load
	s.mu.Unlock()
	if d := s.takes.Load(); d > 0 {
		if err := rest(ctx, time.Duration(d)); err != nil {
			return 0, err
		}
	}
	if load == nil {
		return n, nil
	}
	return load(ctx, n)
}

// does scripts the loads from now on; nil brings the zero source's answers back.
func (s *source) does(load func(ctx context.Context, n int) (int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = load
}

func (s *source) fails() { s.does(func(context.Context, int) (int, error) { return 0, errSource }) }

// rest waits for d or for ctx's end.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause is a place where somebody can be made to stand still.
type pause struct {
	reached chan struct{}
	open    chan struct{}
	came    sync.Once
	let     sync.Once
}

func newPause() *pause { return &pause{reached: make(chan struct{}), open: make(chan struct{})} }

// stand tells that somebody has come, and stands still until release.
func (p *pause) stand() {
	p.came.Do(func() { close(p.reached) })
	<-p.open
}

func (p *pause) release() { p.let.Do(func() { close(p.open) }) }

// reply is what a call in a goroutine of its own came to.
type reply[V any] struct {
	value V
	err   error
	took  time.Duration
}

// later runs get in a goroutine and returns where its reply will be.
func later[V any](get func() (V, error)) <-chan reply[V] {
	ch := make(chan reply[V], 1)
	go func() {
		began := time.Now()
		v, err := get()
		ch <- reply[V]{v, err, time.Since(began)}
	}()
	return ch
}

// is checks a value and a nil error.
func is[V any](t *testing.T, want V) func(V, error) {
	t.Helper()
	return func(v V, err error) {
		t.Helper()
		assert.NoError(t, err)
		assert.Equal(t, v, want)
	}
}

// fails checks an error and that no value came with it.
func fails[V any](t *testing.T, want error) func(V, error) {
	t.Helper()
	return func(v V, err error) {
		t.Helper()
		var none V
		assert.ErrorIs(t, err, want)
		assert.Equal(t, v, none, "a value beside an error")
	}
}

// events keeps what an observer was told.
type events struct {
	mu  sync.Mutex
	all []observe.Event
}

func (e *events) Observe(ev observe.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) count(k observe.Kind) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, ev := range e.all {
		if ev.Kind == k {
			n++
		}
	}
	return n
}

// guard admits up to its bulkhead's slots, unless it is shut, and counts.
type guard struct {
	*protection.Bulkhead
	asked atomic.Int64
	shut  atomic.Bool
}

func newGuard(t *testing.T, slots int) *guard {
	t.Helper()
	b, err := protection.NewBulkhead(protection.BulkheadOptions{Name: "guard", MaxConcurrent: slots, MaxQueue: 1 << 16, MaxWait: time.Hour})
	assert.NoError(t, err)
	return &guard{Bulkhead: b}
}

func (g *guard) Acquire(ctx context.Context) (protection.Permit, error) {
	g.asked.Add(1)
	if g.shut.Load() {
		return protection.Permit{}, &protection.RejectedError{Name: "guard", Policy: "test", Reason: protection.ErrShed}
	}
	return g.Bulkhead.Acquire(ctx)
}

// reads is how many Gets and Lookups the counters have seen end.
func reads(s cache.Stats) uint64 {
	return s.Fresh + s.Negative + s.Stale + s.Loaded + s.Rejected + s.Failed + s.Cancelled + s.Closed + s.NotCached
}

// settle lets the bubble come to rest.
func settle() { synctest.Wait() }
