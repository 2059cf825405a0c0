package main

import (
	"context"
	"fmt"
	"time"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// A database holds the articles and says what it was put through. It runs a bounded number of statements at once, each
// for a while, and queues the rest.
type database interface {
	Kind() string
	DSN() string
	// Query reads one article by its id.
	Query() string
	// Pace sets how long a statement takes.
	Pace(ctx context.Context, d time.Duration) error
	// Reset starts the figures anew.
	Reset(ctx context.Context) error
	Figures(ctx context.Context) (figures, error)
	Now() (running, queued int)
	// Drain waits until no statement runs.
	Drain(ctx context.Context) error
	Close() error
}

// figures are the database's own.
type figures struct {
	Loads      uint64 `json:"loads"` // statements that read an article
	MaxRunning int    `json:"db_max_running"`
	MaxQueued  int    `json:"db_max_queued"`
	PeakQPS    int    `json:"db_peak_qps"`
}

func openDatabase(ctx context.Context, cfg config) (database, error) {
	if cfg.mysql != "" {
		return openServer(ctx, cfg)
	}
	return openSimulator(cfg) //nolint:contextcheck // it lives until Close
}

// scanArticle reads the columns of Query.
func scanArticle(row interface{ Scan(dest ...any) error }) (article, error) {
	var a article
	var slept any
	err := row.Scan(&a.ID, &a.Title, &a.Body, &slept)
	return a, err
}

func newArticle(id int) article {
	return article{int64(id), fmt.Sprintf("Article %d", id), fmt.Sprintf("%0200d", id)}
}

// simulator is a simulated MySQL server in this process, reached over TCP.
type simulator struct {
	srv     *mysqltest.Server
	workers int
}

const simulatedTable = "articles"

func openSimulator(cfg config) (database, error) {
	srv, err := mysqltest.New(mysqltest.Options{})
	if err != nil {
		return nil, err
	}
	t := srv.Table(simulatedTable, "id", "title", "body", "slept")
	for id := range cfg.Keys {
		a := newArticle(id)
		t.Set(a.ID, a.Title, a.Body, 0)
	}
	return &simulator{srv, cfg.Workers}, nil
}

func (s *simulator) Kind() string {
	return fmt.Sprintf("a simulator of MySQL in the demo's own process, %d statements at once", s.workers)
}

func (s *simulator) DSN() string   { return s.srv.DSN() }
func (s *simulator) Query() string { return "SELECT id, title, body, slept FROM articles WHERE id = ?" }

func (s *simulator) Pace(_ context.Context, d time.Duration) error {
	return s.srv.SetCapacity(mysqltest.Capacity{Workers: s.workers, ServiceTime: d})
}

func (s *simulator) Reset(context.Context) error {
	s.srv.ResetStats()
	return nil
}

func (s *simulator) Figures(context.Context) (figures, error) {
	n := s.srv.Stats()
	return figures{
		Loads:      n.ByStatement["table "+simulatedTable],
		MaxRunning: n.MaxRunning, MaxQueued: n.MaxQueued, PeakQPS: n.PeakPerSecond,
	}, nil
}

func (s *simulator) Now() (running, queued int) {
	n := s.srv.Stats()
	return n.Running, n.Queued
}

func (s *simulator) Drain(ctx context.Context) error {
	return s.srv.Await(ctx, func(n mysqltest.Stats) bool { return n.Running+n.Queued == 0 })
}

func (s *simulator) Close() error { return s.srv.Close() }
