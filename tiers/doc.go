// Package tiers is where cached values live: a local tier in the process's memory, in front of a Redis tier shared by
// the fleet.
//
// A [Local] is one memory budget for all caches of a process. Each cache sees it through a [LocalView], which adds a
// table of hot entries that is read without locks, and which checks every entry at the moment it is read: an
// invalidation takes effect by moving an epoch, before anything is deleted.
//
// A [Redis] is the second tier, over any go-redis client. Each cache sees it through a [RedisView], which turns values
// into checked envelopes and back. A broken or foreign envelope is a miss.
package tiers
