package protection

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// zombieGrace is how long a pool has zombies before it says so: work that heeds its ctx needs a moment to come back.
const zombieGrace = 100 * time.Millisecond

// zombies is what a pool knows of work that outlived its callers. All but tell is under the pool's lock.
type zombies struct {
	now   int
	since time.Time   // of the first
	grace *time.Timer // runs from the first zombie on
	alarm bool        // should be on
	told  bool        // is on, as far as the observer knows

	tell sync.Mutex // keeps what the observer hears in order
}

// zombieBegins counts a zombie, under the lock.
func (p *Pool) zombieBegins() {
	z := &p.zombies
	z.now++
	if z.now > 1 || p.opt.Observer == nil {
		return
	}
	z.since = time.Now()
	p.alive++ // Close waits for the timer's goroutine too
	z.grace = time.AfterFunc(zombieGrace, func() {
		p.mu.Lock()
		z.alarm = z.alarm || z.now > 0 && time.Since(z.since) >= zombieGrace // these may be other ones already
		p.mu.Unlock()
		p.tellZombies()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.gone()
	})
}

// zombieEnds counts one less, under the lock.
func (p *Pool) zombieEnds() {
	z := &p.zombies
	z.now--
	if z.now > 0 || p.opt.Observer == nil {
		return
	}
	z.alarm = false
	if z.grace.Stop() {
		p.alive-- // never the last: a worker is calling
	}
}

// tellZombies brings the observer up to date.
func (p *Pool) tellZombies() {
	z := &p.zombies
	p.mu.Lock()
	news := z.alarm != z.told
	p.mu.Unlock()
	if !news {
		return
	}
	z.tell.Lock()
	defer z.tell.Unlock()
	p.mu.Lock()
	if z.alarm == z.told { // somebody else did
		p.mu.Unlock()
		return
	}
	z.told = z.alarm
	n, since, on := z.now, z.since, z.alarm
	p.mu.Unlock()
	event := observe.Event{
		Kind: observe.Alarm, Level: observe.Warn, Source: p.opt.Name,
		Message: fmt.Sprintf("%d of %d workers run work that outlived its caller", n, p.opt.Workers),
		Alarm: &observe.AlarmState{
			Cause: causeZombies, Phase: observe.Raised, Since: since,
			Evidence: []slog.Attr{slog.Int("zombies", n), slog.Int("workers", p.opt.Workers)},
		},
	}
	switch {
	case !on:
		event.Level, event.Message, event.Alarm.Phase = observe.Info, "all workers are free of work that outlived its caller", observe.Cleared
	case n == p.opt.Workers:
		event.Level = observe.Critical
	}
	observe.Emit(p.opt.Observer, event)
}

const causeZombies = "zombies"
