package main

import (
	"context"
	"slices"
	"time"
)

// redisDown stops Redis under load, and brings it back empty.
var redisDown = &scenario{
	name:  "redis-down",
	about: "Redis stops under load, and comes back empty five seconds later.",
	usual: settings{
		Processes: 4, Keys: 1000, Rate: 5000, TTL: 10 * time.Second, Deadline: 2 * time.Second,
		Workers: 8, Service: 20 * time.Millisecond,
	},
	subjects: []string{"naive", "snowshed"},
	event:    func(string, settings) time.Duration { return 4 * time.Second },
	length:   func(settings) time.Duration { return outage + recovery },
	load:     steady,
	deeds: []deed{
		{0, "Redis stops", func(ctx context.Context, w *world) error { return w.redis.Stop(ctx) }},
		{outage, "Redis is back, empty", func(ctx context.Context, w *world) error { return w.redis.Start(ctx) }},
	},
	check: func(s settings, r *result) []error {
		return slices.Concat(answered(r), spared(s, r), back(r, recovery))
	},
}

const (
	outage   = 5 * time.Second
	recovery = 15 * time.Second
)
