package protection

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// zombieGrace is how long a pool has zombies before it says so: work that heeds its ctx needs a moment to come back.
const zombieGrace = 100 * time.Millisecond

// causeZombies is the cause of the alarm.
const causeZombies = "zombies"

// zombies is what a pool knows of work that outlived its callers, under the pool's lock.
type zombies struct {
	now   int
	since time.Time   // when the first of them began
	grace *time.Timer // runs from then on
	alarm bool        // is on
}

// zombieBegins counts a zombie, under the lock.
func (p *Pool) zombieBegins() {
	z := &p.zombies
	z.now++
	if z.now == 1 {
		z.since = time.Now()
		z.grace = time.AfterFunc(zombieGrace, p.zombiesStay)
	}
}

// zombiesStay raises the alarm, unless those that started the timer have gone.
func (p *Pool) zombiesStay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	z := &p.zombies
	if z.now == 0 || z.alarm || time.Since(z.since) < zombieGrace {
		return
	}
	z.alarm = true
	level := observe.Warn
	if z.now == p.opt.Workers {
		level = observe.Critical
	}
	p.tellZombies(observe.Raised, level, fmt.Sprintf("%d of %d workers run work that outlived its caller", z.now, p.opt.Workers))
}

// zombieEnds counts one less, under the lock.
func (p *Pool) zombieEnds() {
	z := &p.zombies
	z.now--
	if z.now > 0 {
		return
	}
	z.grace.Stop()
	if z.alarm {
		z.alarm = false
		p.tellZombies(observe.Cleared, observe.Info, "all workers are free of work that outlived its caller")
	}
}

// tellZombies posts an event, under the lock, so that the observer hears the events in their order.
func (p *Pool) tellZombies(phase observe.Phase, level observe.Level, message string) {
	z := &p.zombies
	p.events.put(p.opt.Observer, observe.Event{
		Kind: observe.Alarm, Level: level, Source: p.opt.Name, Message: message, Duration: time.Since(z.since),
		Alarm: &observe.AlarmState{
			Cause: causeZombies, Phase: phase, Since: z.since,
			Evidence: []slog.Attr{slog.Int("zombies", z.now), slog.Int("workers", p.opt.Workers)},
		},
	})
}
