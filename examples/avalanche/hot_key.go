package main

import (
	"fmt"
	"slices"
	"time"
)

// hotKey lets one key expire, and asks for it with many callers at one moment.
var hotKey = &scenario{
	name:  "hot-key",
	about: "One key that everybody asks for expires.",
	usual: settings{
		Processes: 8, Keys: 1, Rate: 10000, TTL: 10 * time.Second, Deadline: 2 * time.Second,
		Workers: 8, Service: 50 * time.Millisecond,
	},
	subjects: []string{"naive", "snowshed", "snowshed-strict"},
	event:    func(_ string, s settings) time.Duration { return s.TTL + 50*time.Millisecond },
	length:   func(s settings) time.Duration { return s.Deadline },
	load: func(from, _ time.Time, s settings) order {
		return order{Burst: &burst{Callers: s.Rate, At: from.Add(warm), Ask: ask{N: 1, Deadline: s.Deadline}}}
	},
	check: func(s settings, r *result) []error {
		return slices.Concat(answered(r), spared(s, r), atMost(r, 1), all(r))
	},
}

// all says whether every request was answered.
func all(r *result) []error {
	if r.OK != r.Requests {
		return []error{fmt.Errorf("%d of %d requests answered", r.OK, r.Requests)}
	}
	return nil
}
