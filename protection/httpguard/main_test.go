package httpguard_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/protection"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func advance(d time.Duration) { <-time.NewTimer(d).C }

// gate is a policy that remembers the outcomes.
type gate struct {
	limit protection.Policy // for its permit's Limit; nil for none
	err   error             // a refusal

	mu       sync.Mutex
	out      int
	outcomes []protection.Outcome
}

func (g *gate) Acquire(context.Context) (protection.Permit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return protection.Permit{}, g.err
	}
	g.out++
	return protection.NewPermit(func(o protection.Outcome) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.out--
		g.outcomes = append(g.outcomes, o)
	}), nil
}

// policy is the gate, with its limit.
func (g *gate) policy() protection.Policy {
	if g.limit == nil {
		return g
	}
	return protection.Chain(g, g.limit)
}

// ended checks that everything came back, with these outcomes.
func (g *gate) ended(t *testing.T, want ...protection.Outcome) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	assert.Equal(t, g.out, 0, "permits are out")
	assert.Equal(t, g.outcomes, want)
}

func limit(t *testing.T, d time.Duration) protection.Policy {
	t.Helper()
	p, err := protection.NewExecutionTimeout(d)
	assert.NoError(t, err)
	return p
}

// sends is a function as a RoundTripper.
type sends func(*http.Request) (*http.Response, error)

func (f sends) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errNet = errors.New("connection reset")

func named(t *testing.T, err error, what string) {
	t.Helper()
	assert.Error(t, err, what)
	assert.True(t, strings.Contains(err.Error(), what), err)
}
