// Command avalanche lets an avalanche fall on a cache and shows what comes through to the database: once with the
// cache-aside that everybody writes, once with Snowshed, once with Snowshed without jitter and stale answers.
//
// Without flags it needs nothing: Redis is miniredis and the database is a simulator of MySQL, both in this process and
// both spoken to over TCP. With -redis and -mysql it uses real servers, where it makes and drops tables and keys of its own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

type config struct {
	scenario string
	redis    string
	mysql    string
	keys     int
	rate     int
	ttl      time.Duration
	deadline time.Duration
	workers  int
	service  time.Duration
	report   string
	json     bool
	check    bool
}

func main() {
	cfg, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, cfg)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "avalanche:", err)
		os.Exit(1)
	}
}

func parse(args []string) (config, error) {
	var c config
	var short bool
	f := flag.NewFlagSet("avalanche", flag.ContinueOnError)
	f.StringVar(&c.scenario, "scenario", "mass-expiry", "what happens: mass-expiry")
	f.StringVar(&c.redis, "redis", "", "addresses of a real Redis or Redis Cluster, comma-separated (default: miniredis)")
	f.StringVar(&c.mysql, "mysql", "", "DSN of a database on a real MySQL or MariaDB (default: a simulator)")
	f.IntVar(&c.keys, "keys", 1000, "how many keys expire")
	f.IntVar(&c.rate, "rate", 20000, "requests per second, lowered if the machine does not bear them")
	f.DurationVar(&c.ttl, "ttl", 20*time.Second, "TTL of the values")
	f.DurationVar(&c.deadline, "deadline", 2*time.Second, "deadline of a request")
	f.IntVar(&c.workers, "workers", 8, "statements that the database runs at once")
	f.DurationVar(&c.service, "service", 20*time.Millisecond, "how long a statement takes it")
	f.StringVar(&c.report, "report", "avalanche.html", "where the HTML report goes; empty: nowhere")
	f.BoolVar(&c.json, "json", false, "print the figures as one JSON object, as the last line")
	f.BoolVar(&c.check, "check", false, "fail if Snowshed let through more than it promises")
	f.BoolVar(&short, "short", false, "a run of seconds with fewer keys and requests, for a smoke test")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if short {
		c.keys, c.rate, c.ttl, c.deadline = 200, 2000, 5*time.Second, time.Second
	}
	switch {
	case c.scenario != "mass-expiry":
		return c, fmt.Errorf("-scenario %q is unknown; there is mass-expiry", c.scenario)
	case c.keys < 1 || c.rate < 1 || c.workers < 1:
		return c, errors.New("-keys, -rate and -workers must be at least 1")
	case c.ttl < 4*time.Second || c.deadline <= 0 || c.service <= 0:
		return c, errors.New("-ttl must be at least 4s, -deadline and -service more than 0")
	}
	return c, nil
}

func run(ctx context.Context, cfg config) (err error) {
	out := io.Writer(os.Stdout)
	if cfg.json {
		out = os.Stderr // so that the last line of standard output is the object, and the only one
	}
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	fmt.Fprintf(out, "scenario %s: %d keys, %d requests/s, TTL %v, deadline %v\nredis: %s\ndatabase: %s\n",
		cfg.scenario, cfg.keys, cfg.rate, cfg.ttl, cfg.deadline, redisKind(cfg), db.Kind())

	results, err := massExpiry(ctx, cfg, db, out)
	if err != nil {
		return err
	}
	printTable(out, results)
	if cfg.report != "" {
		if err := writeReport(cfg, results); err != nil {
			return err
		}
		fmt.Fprintln(out, "\nreport with plots:", cfg.report)
	}
	if cfg.json {
		err = json.NewEncoder(os.Stdout).Encode(struct {
			Scenario string    `json:"scenario"`
			Runs     []*result `json:"runs"`
		}{cfg.scenario, results})
	}
	if cfg.check {
		err = errors.Join(err, check(cfg, results))
	}
	return err
}
