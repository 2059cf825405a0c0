package mysqltest

import (
	"fmt"
	"time"
)

const (
	defaultAddr           = "127.0.0.1:0"
	defaultVersion        = "8.4.0-mysqltest"
	defaultMaxConnections = 151
	defaultMaxPacket      = 64 << 20

	cachingSHA2    = "caching_sha2_password"
	nativePassword = "mysql_native_password" //nolint:gosec // a name, no credentials
)

// Options configure a [Server]. The zero value is a server without limits on a free loopback port.
type Options struct {
	// Addr is the TCP address to listen on. Default: a free port of 127.0.0.1.
	Addr string
	// InMemory leaves the TCP listener out: only [Server.Dial] connects. Needed inside a synctest bubble.
	InMemory bool
	// Version is the server version in the handshake. Default: an 8.4 version.
	Version string
	// AuthPlugin is the plugin named in the handshake: caching_sha2_password (default) or mysql_native_password.
	// Every user and password is accepted with either.
	AuthPlugin string
	// MaxConnections is the number of sessions, zombies included, above which a new connection gets error 1040.
	// Default 151, negative: no limit.
	MaxConnections int
	// MaxAllowedPacket is the largest command in bytes; a larger one gets error 1153 and loses its connection.
	// Default 64 MiB.
	MaxAllowedPacket int
	// Capacity is the initial capacity; [Server.SetCapacity] changes it.
	Capacity Capacity
	// KillDelay is the time from a KILL to the end of the statement, as of a rollback. Default: none.
	KillDelay time.Duration
}

// Capacity is what the server can do at a time. Its zero value has no limit and no service time.
type Capacity struct {
	// Workers is the number of statements that run at a time. 0: no limit.
	Workers int
	// ServiceTime is how long a statement holds its worker, beside the time its handler takes.
	ServiceTime time.Duration
	// Jitter is the upper bound of a random addition to ServiceTime.
	Jitter time.Duration
	// MaxQueue is the number of statements that may wait for a worker, first come first served; the next one gets
	// error 1041. 0: no limit, negative: none may wait.
	MaxQueue int
}

func (o Options) withDefaults() Options {
	if o.Addr == "" {
		o.Addr = defaultAddr
	}
	if o.Version == "" {
		o.Version = defaultVersion
	}
	if o.AuthPlugin == "" {
		o.AuthPlugin = cachingSHA2
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = defaultMaxConnections
	}
	if o.MaxAllowedPacket == 0 {
		o.MaxAllowedPacket = defaultMaxPacket
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.AuthPlugin != cachingSHA2 && o.AuthPlugin != nativePassword:
		return fmt.Errorf("mysqltest: Options.AuthPlugin %q is neither %s nor %s", o.AuthPlugin, cachingSHA2, nativePassword)
	case o.MaxAllowedPacket < 1024:
		return fmt.Errorf("mysqltest: Options.MaxAllowedPacket is %d bytes, less than 1024", o.MaxAllowedPacket)
	case o.KillDelay < 0:
		return fmt.Errorf("mysqltest: Options.KillDelay is negative: %v", o.KillDelay)
	case o.InMemory && o.Addr != defaultAddr:
		return fmt.Errorf("mysqltest: Options.Addr is %q, but Options.InMemory listens nowhere", o.Addr)
	}
	return o.Capacity.validate()
}

func (c Capacity) validate() error {
	switch {
	case c.Workers < 0:
		return fmt.Errorf("mysqltest: Capacity.Workers is negative: %d", c.Workers)
	case c.ServiceTime < 0:
		return fmt.Errorf("mysqltest: Capacity.ServiceTime is negative: %v", c.ServiceTime)
	case c.Jitter < 0:
		return fmt.Errorf("mysqltest: Capacity.Jitter is negative: %v", c.Jitter)
	}
	return nil
}
