package tiers

import (
	"sync"
	"sync/atomic"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
)

// downAfter is how many pipelines in a row must fail before the tier says that Redis is down. The breaker alone would wait
// for a number of calls within its window, which a quiet service may not make for hours.
const downAfter = 3

// health tells the observer when a node goes down and comes up: RedisDown as a warning after downAfter pipelines in a
// row that failed or timed out, RedisDown as critical when the breaker opens, RedisUp once when it is over, which is the
// first success, or the closing of the breaker if it had opened.
type health struct {
	source   string
	addr     string // "" for a client with one address
	observer observe.Observer

	troubled atomic.Bool // something below is not zero

	mu      sync.Mutex
	failed  int // calls in a row
	warned  bool
	tripped bool
}

// note takes the outcome of a call.
func (h *health) note(o protection.Outcome) {
	if o == protection.Success && !h.troubled.Load() {
		return
	}
	var e observe.Event
	h.mu.Lock()
	switch o {
	case protection.Success:
		h.failed = 0
		if h.warned && !h.tripped {
			h.warned = false
			e = h.event(observe.RedisUp, observe.Info, "Redis answers again")
		}
	case protection.Failure, protection.Timeout:
		h.failed++
		if h.failed >= downAfter && !h.warned && !h.tripped {
			h.warned = true
			e = h.event(observe.RedisDown, observe.Warn, "Redis does not answer: several calls in a row have failed")
		}
	default:
	}
	h.troubled.Store(h.failed > 0 || h.warned || h.tripped)
	h.mu.Unlock()
	if e.Kind != "" {
		observe.Emit(h.observer, e)
	}
}

// follow takes an event of the node's breaker.
func (h *health) follow(e observe.Event) {
	var told observe.Event
	h.mu.Lock()
	switch e.Kind {
	case observe.BreakerOpened:
		h.tripped = true
		told = h.event(observe.RedisDown, observe.Critical, "Redis does not answer: the circuit breaker has opened")
	case observe.BreakerClosed:
		h.tripped, h.warned, h.failed = false, false, 0
		told = h.event(observe.RedisUp, observe.Info, "Redis answers again: the circuit breaker has closed")
	default:
	}
	h.troubled.Store(h.tripped)
	h.mu.Unlock()
	if told.Kind != "" {
		observe.Emit(h.observer, told)
	}
}

func (h *health) event(k observe.Kind, l observe.Level, message string) observe.Event {
	if h.addr != "" {
		message += " (node " + h.addr + ")"
	}
	return observe.Event{Kind: k, Level: l, Source: h.source, Message: message}
}
