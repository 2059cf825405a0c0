package protection_test

import (
	"slices"
	"sync"

	"github.com/snowshed-go/snowshed/observe"
)

// eventLog is an observer that remembers.
type eventLog struct {
	mu     sync.Mutex
	events []observe.Event
}

func (l *eventLog) Observe(e observe.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *eventLog) all() []observe.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// phases returns what became of the alarms, in order.
func (l *eventLog) phases() []observe.Phase {
	var phases []observe.Phase
	for _, e := range l.all() {
		if e.Kind == observe.Alarm {
			phases = append(phases, e.Alarm.Phase)
		}
	}
	return phases
}
