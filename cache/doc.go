// Package cache is a read-through cache that keeps the source behind it inside its capacity, whatever falls on the cache.
//
// A [Cache] answers [Cache.Get] from the memory of the process, then from Redis, then from the loader. It rebuilds a
// value once, however many callers wait for it; it refreshes values that are about to expire before they do; it answers
// with a stale value for a while when the source is slow, refuses work or fails; and it never stores a value that an
// invalidation has overtaken.
//
// How old an answer may be is decided by [Options]: fresh for TTL, then stale for at most StaleWhileRevalidate while a
// refresh runs, and for at most StaleIfError while loads fail.
package cache
