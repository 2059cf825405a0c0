package main

import (
	"errors"
	"slices"
	"time"
)

// jitter is the part of the TTL over which Snowshed spreads expiries: its default.
const jitter = 0.1

// massExpiry fills the cache at one moment and waits until its values expire under load. Each subject is measured from
// the moment when its first key may expire.
var massExpiry = &scenario{
	name:  "mass-expiry",
	about: "Values that were cached at one moment expire together.",
	usual: settings{
		Processes: 1, Keys: 1000, Rate: 20000, TTL: 20 * time.Second, Deadline: 2 * time.Second,
		Workers: 8, Service: 20 * time.Millisecond,
	},
	subjects: []string{"naive", "snowshed", "snowshed-strict"},
	event: func(subject string, s settings) time.Duration {
		if subject == "snowshed" {
			return s.TTL - spread(s)
		}
		return s.TTL
	},
	length: func(s settings) time.Duration { return spread(s) + aftermath },
	load:   steady,
	check: func(s settings, r *result) []error {
		var rejections []error
		if r.Name == "snowshed" && r.Rejected > 0 {
			rejections = append(rejections, errors.New("rejections in spite of stale values"))
		}
		return slices.Concat(answered(r), spared(s, r), atMost(r, uint64(s.Keys)+10), rejections)
	},
}

func spread(s settings) time.Duration { return time.Duration(jitter * float64(s.TTL)) }

// aftermath is how long each subject is looked on once the last of its keys may have expired.
const aftermath = 3 * time.Second
