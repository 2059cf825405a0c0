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
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

type config struct {
	settings

	scenario   *scenario
	redis      string
	redisStop  string
	redisStart string
	mysql      string
	report     string
	json       bool
	check      bool
}

func main() {
	if isChild() {
		signal.Ignore(os.Interrupt)            // its parent tells it when to end
		redis.SetLogger(&logging.VoidLogger{}) // a Redis that is away is part of the show
		if err := child(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "avalanche: a process of the fleet:", err)
			os.Exit(1)
		}
		return
	}
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
	var c, given config
	var name string
	var short bool
	f := flag.NewFlagSet("avalanche", flag.ContinueOnError)
	f.StringVar(&name, "scenario", massExpiry.name, "what happens: "+names())
	f.StringVar(&c.redis, "redis", "", "addresses of a real Redis or Redis Cluster, comma-separated (default: miniredis)")
	f.StringVar(&c.redisStop, "redis-stop", "", "shell command that stops a real Redis, for redis-down")
	f.StringVar(&c.redisStart, "redis-start", "", "shell command that starts it again, empty")
	f.StringVar(&c.mysql, "mysql", "", "DSN of a database on a real MySQL or MariaDB (default: a simulator)")
	f.StringVar(&c.report, "report", "avalanche.html", "where the HTML report goes; empty: nowhere")
	f.BoolVar(&c.json, "json", false, "print the figures as one JSON object, as the last line")
	f.BoolVar(&c.check, "check", false, "fail if Snowshed did not do what it promises")
	f.BoolVar(&short, "short", false, "a tenth of the requests, a quarter of the keys and of the TTL, for a smoke test")
	const own = " (default: the scenario's own)"
	f.IntVar(&given.Processes, "processes", 0, "processes of the service"+own)
	f.IntVar(&given.Keys, "keys", 0, "how many articles there are"+own)
	f.IntVar(&given.Rate, "rate", 0, "requests per second, lowered if the machine does not bear them; with hot-key, callers at one moment"+own)
	f.DurationVar(&given.TTL, "ttl", 0, "TTL of the values"+own)
	f.DurationVar(&given.Deadline, "deadline", 0, "deadline of a request"+own)
	f.IntVar(&given.Workers, "workers", 0, "statements that the database runs at once"+own)
	f.DurationVar(&given.Service, "service", 0, "how long a statement takes it"+own)
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == name })
	if i < 0 {
		return c, fmt.Errorf("-scenario %q is unknown; there are %s", name, names())
	}
	c.scenario = scenarios[i]
	c.settings = c.scenario.usual
	if short {
		c.Rate, c.Keys, c.TTL = c.Rate/10, max(c.Keys/4, 1), max(c.TTL/4, 4*time.Second)
	}
	override(&c.Processes, given.Processes)
	override(&c.Keys, given.Keys)
	override(&c.Rate, given.Rate)
	override(&c.Workers, given.Workers)
	override(&c.TTL, given.TTL)
	override(&c.Deadline, given.Deadline)
	override(&c.Service, given.Service)
	switch {
	case c.Keys < 1 || c.Rate < 1 || c.Workers < 1 || c.Processes < 1:
		return c, errors.New("-keys, -rate, -workers and -processes must be at least 1")
	case c.TTL < 4*time.Second || c.Deadline <= 0 || c.Service <= 0:
		return c, errors.New("-ttl must be at least 4s, -deadline and -service more than 0")
	}
	return c, nil
}

func override[T comparable](value *T, given T) {
	var none T
	if given != none {
		*value = given
	}
}

func names() string {
	all := make([]string, 0, len(scenarios))
	for _, s := range scenarios {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
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
	rdb, err := openRedis(cfg)
	if err != nil {
		return err
	}
	defer rdb.Close()
	fmt.Fprintf(out, "scenario %s: %s\n%d processes, %d keys, TTL %v, deadline %v\nredis: %s\ndatabase: %s\n",
		cfg.scenario.name, cfg.scenario.about, cfg.Processes, cfg.Keys, cfg.TTL, cfg.Deadline, rdb.Kind(), db.Kind())

	w := &world{settings: cfg.settings, db: db, redis: rdb}
	results, err := cfg.scenario.run(ctx, w, out)
	if err != nil {
		return err
	}
	printTable(out, results)
	if cfg.report != "" {
		if err := writeReport(cfg, w, results); err != nil {
			return err
		}
		fmt.Fprintln(out, "\nreport with plots:", cfg.report)
	}
	if cfg.json {
		err = json.NewEncoder(os.Stdout).Encode(struct {
			Scenario string    `json:"scenario"`
			Runs     []*result `json:"runs"`
		}{cfg.scenario.name, results})
	}
	if cfg.check {
		err = errors.Join(err, check(cfg.scenario, w.settings, results))
	}
	return err
}

// check returns an error for each promise that was not kept. Latencies are no part of it: they depend on the machine.
func check(sc *scenario, s settings, runs []*result) error {
	var errs []error
	for _, r := range runs {
		if r.Requests == 0 {
			errs = append(errs, fmt.Errorf("%s: no requests", r.Name))
		}
		if r.Name == "naive" {
			continue
		}
		for _, err := range sc.check(s, r) {
			errs = append(errs, fmt.Errorf("%s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}
