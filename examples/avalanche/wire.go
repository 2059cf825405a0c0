package main

import (
	"encoding/gob"
	"io"
	"time"
)

// What the parent and its processes say to each other, by gob over the processes' standard input and output. Moments are
// wall clock readings: all run on one machine.

// settings are what a scenario is run with.
type settings struct {
	Processes   int
	Keys        int
	Rate        int // requests a second, or callers at one moment
	TTL         time.Duration
	NegativeTTL time.Duration // 0: the default of the library
	Deadline    time.Duration
	Workers     int // statements that the database runs at once
	Service     time.Duration
}

// setup is the first that a process hears: what it is.
type setup struct {
	Subject string
	Config  settings
	Workers int // statements that this process may run at once
	DSN     string
	Query   string
	Redis   []string
}

// order is one piece of work. Exactly one field is set.
type order struct {
	Fill  bool // cache all articles at one moment
	Drive *drive
	Burst *burst
}

// drive is an open loop of requests.
type drive struct {
	Rate     float64 // requests a second
	From, To time.Time
	Ask      ask
}

// burst is many callers that ask at one moment.
type burst struct {
	Callers int
	At      time.Time
	Ask     ask
}

// ask is how requests are made.
type ask struct {
	N        int64 // ids are drawn from [0, N)
	Extra    int64 // from Since on, from [0, N+Extra)
	Since    time.Time
	Deadline time.Duration // of a request, retries included
	Attempts int           // how often a client tries; 0 is once
}

// report tells what came of an order: any number with samples, then one that is done.
type report struct {
	Samples []sample
	Example string // an error that was neither a rejection nor a timeout
	Done    bool
	Filled  time.Time // just before the first article was cached
	Err     string
}

// sample is one request.
type sample struct {
	At      time.Time // when it was meant to start
	Latency time.Duration
	Kind    kind
}

// line is one end of the connection.
type line struct {
	enc *gob.Encoder
	dec *gob.Decoder
}

func newLine(in io.Reader, out io.Writer) line { return line{gob.NewEncoder(out), gob.NewDecoder(in)} }
