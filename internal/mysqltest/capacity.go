package mysqltest

import (
	"context"
	"math/rand/v2"
	"time"
)

// SetCapacity changes the capacity at once: statements that run keep their workers and service times, waiting ones get
// workers that were added. It returns an error that names the field that is wrong, and then changes nothing.
func (s *Server) SetCapacity(c Capacity) error {
	if err := c.validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = c
	s.dispatchLocked()
	return nil
}

// acquire takes a worker for st, or waits in the queue for one until ctx ends. It returns the service time that st is
// to spend.
func (s *Server) acquire(ctx context.Context, st *running) (time.Duration, error) {
	s.mu.Lock()
	if s.idleWorkerLocked() {
		defer s.mu.Unlock()
		s.startLocked(st)
		return s.serviceTimeLocked(), nil
	}
	limit := s.capacity.MaxQueue
	if limit < 0 || limit > 0 && s.queue.Len() >= limit {
		s.mu.Unlock()
		return 0, Errno(1041)
	}
	st.state = stateQueued
	st.granted = make(chan struct{})
	place := s.queue.PushBack(st)
	s.stats.MaxQueued = max(s.stats.MaxQueued, s.queue.Len())
	s.changedLocked()
	s.mu.Unlock()

	select {
	case <-st.granted:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.serviceTimeLocked(), nil
	case <-ctx.Done():
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-st.granted:
		s.releaseLocked() // the worker came in the moment of the kill
	default:
		s.queue.Remove(place)
		s.changedLocked()
	}
	return 0, context.Cause(ctx)
}

// release gives a worker back.
func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

func (s *Server) releaseLocked() {
	s.stats.Running--
	s.dispatchLocked()
	s.changedLocked()
}

// dispatchLocked hands idle workers to the longest waiting statements.
func (s *Server) dispatchLocked() {
	for s.queue.Len() > 0 && s.freeWorkerLocked() {
		st, ok := s.queue.Remove(s.queue.Front()).(*running)
		if !ok {
			return
		}
		s.startLocked(st)
		close(st.granted)
	}
}

func (s *Server) startLocked(st *running) {
	st.state = stateExecuting
	s.stats.Running++
	s.stats.MaxRunning = max(s.stats.MaxRunning, s.stats.Running)
	s.changedLocked()
}

func (s *Server) freeWorkerLocked() bool {
	return s.capacity.Workers == 0 || s.stats.Running < s.capacity.Workers
}

// idleWorkerLocked says whether a newcomer may start: not when others wait, even if a worker is just free.
func (s *Server) idleWorkerLocked() bool {
	return s.queue.Len() == 0 && s.freeWorkerLocked()
}

func (s *Server) serviceTimeLocked() time.Duration {
	d := s.capacity.ServiceTime
	if s.capacity.Jitter > 0 {
		d += rand.N(s.capacity.Jitter)
	}
	return d
}

// wait spends d, or less if ctx ends before: then it returns the cause.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
