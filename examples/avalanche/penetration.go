package main

import (
	"slices"
	"time"
)

// penetration asks for articles that do not exist, a few thousand of them again and again.
var penetration = &scenario{
	name:  "penetration",
	about: "Half of the requests ask for articles that do not exist.",
	usual: settings{
		Processes: 4, Keys: 1000, Rate: 5000, TTL: time.Minute, NegativeTTL: time.Minute, Deadline: 2 * time.Second,
		Workers: 8, Service: 5 * time.Millisecond,
	},
	subjects: []string{"naive", "snowshed"},
	event:    func(string, settings) time.Duration { return 3 * time.Second },
	length:   func(settings) time.Duration { return 10 * time.Second },
	load: func(from, to time.Time, s settings) order {
		o := steady(from, to, s)
		o.Drive.Ask.Extra, o.Drive.Ask.Since = int64(s.Keys), from.Add(warm) // ids that do not exist
		return o
	},
	check: func(s settings, r *result) []error {
		return slices.Concat(answered(r), spared(s, r), atMost(r, uint64(s.Keys)))
	},
}
