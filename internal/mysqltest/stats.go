package mysqltest

import (
	"context"
	"maps"
	"time"
)

// Stats is what the server counted since it was created or since [Server.ResetStats]. "Statements" are those that need a
// worker: not BEGIN, COMMIT, ROLLBACK, SET, USE, KILL, pings, or what the server says of itself, such as SELECT 1,
// SELECT CONNECTION_ID() and the process list.
type Stats struct {
	Running, Queued, Zombies, Sessions, Conns int // now; a zombie runs or waits for a client that has gone; Conns have a client

	MaxRunning, MaxQueued, MaxZombies, MaxSessions int

	Done          uint64 // statements ended, in whatever way
	Failed        uint64 // of these, with an error
	PeakPerSecond int    // most statements that arrived in one second, counted in fixed windows of one second
	Opened        uint64 // connections accepted, refused ones not included
	Refused       uint64 // connections that got error 1040

	// ByStatement counts arrivals by the SQL text or name given to the Handle functions, "table NAME" for a Table, the
	// verb for what takes no worker (BEGIN, COMMIT, ROLLBACK, SET, USE, KILL, PING, PREPARE) and "(no handler)".
	ByStatement map[string]uint64
}

// Stats returns a snapshot that the caller owns.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked()
}

// ResetStats sets counts to zero and maxima to the present values.
func (s *Server) ResetStats() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.snapshotLocked()
	s.stats = Stats{
		Running: now.Running, Zombies: now.Zombies, Conns: now.Conns,
		MaxRunning: now.Running, MaxQueued: now.Queued, MaxZombies: now.Zombies, MaxSessions: now.Sessions,
		ByStatement: make(map[string]uint64),
	}
	s.window = window{start: time.Now()}
}

// Await returns nil as soon as cond holds, and the cause of ctx if it ends before. cond is called after every change,
// one call at a time, and must not block.
func (s *Server) Await(ctx context.Context, cond func(Stats) bool) error {
	for {
		s.mu.Lock()
		now := s.snapshotLocked()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		if cond(now) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changedLocked wakes those who wait in Await.
func (s *Server) changedLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *Server) snapshotLocked() Stats {
	now := s.stats
	now.Queued = s.queue.Len()
	now.Sessions = len(s.sessions)
	now.ByStatement = maps.Clone(s.stats.ByStatement)
	return now
}

// arrived counts a statement; worker says that it needs one.
func (s *Server) arrived(name string, worker bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.ByStatement[name]++
	if worker {
		s.stats.PeakPerSecond = max(s.stats.PeakPerSecond, s.window.add(time.Now()))
	}
	s.changedLocked()
}

// ended counts the end of a statement that needed a worker.
func (s *Server) ended(failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Done++
	if failed {
		s.stats.Failed++
	}
	s.changedLocked()
}

// window counts events in the present second since start.
type window struct {
	start  time.Time
	second time.Duration
	count  int
}

func (w *window) add(now time.Time) int {
	if second := now.Sub(w.start).Truncate(time.Second); second != w.second {
		w.second, w.count = second, 0
	}
	w.count++
	return w.count
}
