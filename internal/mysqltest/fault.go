package mysqltest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Action is what a [Fault] does to a statement or a connection.
type Action uint8

// Actions of a [Fault]. Only Delay and Hang take a worker.
const (
	Fail      Action = iota // answers Fault.Err instead of running
	FailAsync               // sends Fault.Err as a packet with sequence id 0, as for 4031, and closes the connection
	Delay                   // runs with Fault.Delay added to the service time
	Hang                    // keeps its worker until a KILL or the end of the server, whatever the client does
	Drop                    // runs, and the connection is closed before the reply
	Reset                   // does not run; the connection is reset (RST on TCP)
	Silence                 // half-open: the connection never answers again
)

// Stage says where a [Fault] strikes.
type Stage uint8

// Stages of a [Fault].
const (
	OnStatement Stage = iota // statements and pings, when they arrive
	OnConnect                // connections, before the handshake
)

// Fault is trouble for those statements or connections that it matches.
type Fault struct {
	Action Action
	On     Stage
	// Match picks the statements. The zero value takes pings (as "PING") and all statements that need a worker (see
	// Stats); the others are hit only by a Match that names them.
	Match Matcher
	// Err is the answer of Fail and FailAsync. Default: error 1105.
	Err *Error
	// Delay is the added service time of Delay, and for the other actions the time before they strike.
	Delay time.Duration
	// Times is the number of statements or connections to hit. 0: all until removed.
	Times int
}

// Inject adds a fault to those that are active and returns a function that removes it, which may be called more than
// once. Of several faults that match, the oldest strikes. Safe for concurrent use, as all methods.
func (s *Server) Inject(f Fault) (remove func()) {
	if f.Err == nil {
		f.Err = Errno(1105)
	}
	return s.faults.add(f)
}

// ClearFaults removes all faults. Statements that hang already go on hanging, silent connections stay silent.
func (s *Server) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.set(nil)
}

// faults holds the active faults, oldest first.
type faults struct {
	active atomic.Bool // spares statements the lock as long as there are none
	mu     sync.Mutex
	list   []*Fault
}

func (fs *faults) add(f Fault) func() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	added := &f
	fs.set(append(fs.list, added))
	return func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.removeLocked(added)
	}
}

// take returns the fault that strikes, if one does, and counts the strike. text is called at most once.
func (fs *faults) take(on Stage, explicit bool, text func() string) (Fault, bool) {
	if !fs.active.Load() {
		return Fault{}, false
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	sql := text()
	for _, f := range fs.list {
		if f.On != on || f.Match.match == nil && explicit || f.Match.match != nil && !f.Match.match(sql) {
			continue
		}
		strike := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				fs.removeLocked(f)
			}
		}
		return strike, true
	}
	return Fault{}, false
}

func (fs *faults) removeLocked(f *Fault) {
	if i := slices.Index(fs.list, f); i >= 0 {
		fs.set(slices.Delete(fs.list, i, i+1))
	}
}

func (fs *faults) set(list []*Fault) {
	fs.list = list
	fs.active.Store(len(list) > 0)
}
