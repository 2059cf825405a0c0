// Package redislimit holds limits that a fleet of processes shares through Redis. They are policies of package protection
// and go into its chains.
//
// Every decision is a round trip to Redis, so put a local policy behind it: it costs nothing, and it holds when Redis
// does not answer.
package redislimit
