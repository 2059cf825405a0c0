package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

// server is a real MySQL or MariaDB, with tables of its own that are dropped at the end. A server has no number of
// statements that it can run at once, so one is made: each article belongs to one of as many rows as there are workers,
// a read locks the row of its article and sleeps, and who finds it locked queues inside the server.
type server struct {
	db      *sql.DB
	dsn     string
	workers int
	stop    chan struct{}
	done    chan struct{}

	mu              sync.Mutex
	figures         figures
	running, queued int
	window          time.Time // of PeakQPS
	selects         uint64    // at its start
	first           uint64    // at the last Reset
	fault           error     // of watching

	looks atomic.Uint64 // SELECTs of our own
}

const (
	articlesTable = "snowshed_avalanche_articles"
	workersTable  = "snowshed_avalanche_workers"
	paceTable     = "snowshed_avalanche_pace"
)

func openServer(ctx context.Context, cfg config) (database, error) {
	db, err := sql.Open("mysql", cfg.mysql)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	s := &server{db: db, dsn: cfg.mysql, workers: cfg.Workers, stop: make(chan struct{}), done: make(chan struct{})}
	if err := s.create(ctx, cfg.Keys); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the tables: %w", err), s.drop(), db.Close())
	}
	go s.watch() //nolint:contextcheck,gosec // it ends with Close, not with ctx
	return s, nil
}

func (s *server) create(ctx context.Context, keys int) error {
	statements := make([]string, 0, 4+s.workers)
	statements = append(statements,
		"CREATE TABLE "+articlesTable+" (id BIGINT PRIMARY KEY, worker INT NOT NULL, title VARCHAR(100) NOT NULL, body TEXT NOT NULL) ENGINE=InnoDB",
		"CREATE TABLE "+workersTable+" (id INT PRIMARY KEY) ENGINE=InnoDB",
		"CREATE TABLE "+paceTable+" (seconds DOUBLE NOT NULL) ENGINE=InnoDB",
		"INSERT INTO "+paceTable+" VALUES (0)",
	)
	for w := range s.workers {
		statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d)", workersTable, w))
	}
	if err := s.drop(); err != nil {
		return err
	}
	for _, q := range statements {
		if _, err := s.db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for id := range keys {
		a := newArticle(id)
		_, err := tx.ExecContext(ctx, "INSERT INTO "+articlesTable+" VALUES (?, ?, ?, ?)", a.ID, id%s.workers, a.Title, a.Body)
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *server) drop() error {
	_, err := s.db.Exec("DROP TABLE IF EXISTS " + articlesTable + ", " + workersTable + ", " + paceTable)
	return err
}

func (s *server) Kind() string {
	return fmt.Sprintf("a real server, %d statements at once by row locks", s.workers)
}

func (s *server) DSN() string { return s.dsn }

func (s *server) Query() string {
	return "SELECT a.id, a.title, a.body, SLEEP((SELECT seconds FROM " + paceTable + ")) FROM " + articlesTable +
		" a JOIN " + workersTable + " w ON w.id = a.worker WHERE a.id = ? FOR UPDATE"
}

func (s *server) Pace(ctx context.Context, d time.Duration) error {
	_, err := s.db.ExecContext(ctx, "UPDATE "+paceTable+" SET seconds = ?", d.Seconds())
	return err
}

// watch asks the server again and again what it is doing.
func (s *server) watch() {
	defer close(s.done)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		err := s.look(context.Background())
		s.mu.Lock()
		s.fault = errors.Join(s.fault, err)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// look takes one sample of the process list and of the counters.
func (s *server) look(ctx context.Context) error {
	const asleep = "User sleep"
	var running, queued int
	s.looks.Add(1)
	err := s.db.QueryRowContext(ctx, "SELECT COALESCE(SUM(STATE = ?), 0), COALESCE(SUM(STATE <> ?), 0) FROM information_schema.PROCESSLIST "+
		"WHERE COMMAND IN ('Query', 'Execute') AND INFO LIKE 'SELECT a.id%'", asleep, asleep).Scan(&running, &queued)
	if err != nil {
		return err
	}
	selects, err := s.reads(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.queued = running, queued
	f := &s.figures
	f.MaxRunning, f.MaxQueued = max(f.MaxRunning, running), max(f.MaxQueued, queued)
	if now := time.Now(); now.Sub(s.window) >= time.Second {
		if !s.window.IsZero() {
			f.PeakQPS = max(f.PeakQPS, int(float64(selects-s.selects)/now.Sub(s.window).Seconds()))
		}
		s.window, s.selects = now, selects
	}
	return nil
}

// reads returns how many SELECTs the server has begun, other than those of look. Nobody else should use the server.
func (s *server) reads(ctx context.Context) (uint64, error) {
	var name string
	var n uint64
	if err := s.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Com_select'").Scan(&name, &n); err != nil {
		return 0, err
	}
	return n - s.looks.Load(), nil
}

func (s *server) Reset(ctx context.Context) error {
	n, err := s.reads(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.figures, s.first, s.window = figures{}, n, time.Time{}
	return err
}

func (s *server) Figures(ctx context.Context) (figures, error) {
	n, err := s.reads(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.figures
	f.Loads = n - s.first
	return f, errors.Join(err, s.fault)
}

func (s *server) Now() (running, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.queued
}

func (s *server) Drain(ctx context.Context) error {
	for {
		if err := s.look(ctx); err != nil {
			return err
		}
		if running, queued := s.Now(); running+queued == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *server) Close() error {
	close(s.stop)
	<-s.done
	return errors.Join(s.drop(), s.db.Close())
}
