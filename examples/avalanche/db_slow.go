package main

import (
	"context"
	"slices"
	"time"
)

// dbSlow makes the database ten times slower for a while, under clients that retry.
var dbSlow = &scenario{
	name:  "db-slow",
	about: "The database is ten times slower for ten seconds, and clients try three times.",
	usual: settings{
		Processes: 4, Keys: 1000, Rate: 5000, TTL: 4 * time.Second, Deadline: time.Second,
		Workers: 8, Service: 20 * time.Millisecond,
	},
	subjects: []string{"naive", "snowshed", "snowshed-strict"},
	event:    func(string, settings) time.Duration { return 5 * time.Second },
	length:   func(settings) time.Duration { return slowness + recovery },
	load: func(from, to time.Time, s settings) order {
		o := steady(from, to, s)
		o.Drive.Ask.Attempts = 3
		return o
	},
	deeds: []deed{
		{0, "the database is ten times slower", func(ctx context.Context, w *world) error { return w.db.Pace(ctx, 10*w.Service) }},
		{slowness, "the database is as before", func(ctx context.Context, w *world) error { return w.db.Pace(ctx, w.Service) }},
	},
	check: func(s settings, r *result) []error {
		return slices.Concat(spared(s, r), back(r, slowness+recovery-time.Second))
	},
}

const slowness = 10 * time.Second
