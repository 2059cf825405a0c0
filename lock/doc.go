// Package lock decides who may rebuild a value: [Flights] let one goroutine of a process do it while the others wait
// for its result.
package lock
