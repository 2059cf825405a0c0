package protection

import (
	"sync"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// mailbox hands events to observers, in order, on a goroutine of its own that lives while there are any. So an observer may
// be slow, and may call the breaker that tells it.
type mailbox struct {
	mu      sync.Mutex
	queue   []letter
	running bool
}

type letter struct {
	to    observe.Observer
	event observe.Event
}

// maxLetters bounds what a stuck observer leaves unread. Past it the newest are dropped.
const maxLetters = 256

// put queues an event. It never waits for an observer.
func (m *mailbox) put(to observe.Observer, e observe.Event) {
	if to == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) >= maxLetters {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	m.queue = append(m.queue, letter{to, e})
	if !m.running {
		m.running = true
		go m.deliver()
	}
}

// deliver hands out what there is. Emit contains an observer that panics or exits.
func (m *mailbox) deliver() {
	for {
		l, ok := m.next()
		if !ok {
			return
		}
		observe.Emit(l.to, l.event)
	}
}

func (m *mailbox) next() (l letter, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		m.running, m.queue = false, nil
		return l, false
	}
	l = m.queue[0]
	m.queue[0] = letter{}
	m.queue = m.queue[1:]
	return l, true
}
