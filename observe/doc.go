// Package observe holds the types that all parts of Snowshed use to say what happened: events, their levels and
// observers, and counters that stay cheap when many threads count at once.
//
// It imports nothing of Snowshed, so that every other package can speak it.
package observe
