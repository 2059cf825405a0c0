package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A redisServer holds the second tier, and can be stopped.
type redisServer interface {
	Kind() string
	Addrs() []string
	Stop(ctx context.Context) error
	// Start brings it back empty.
	Start(ctx context.Context) error
	Close()
}

func openRedis(cfg config) (redisServer, error) {
	if cfg.redis != "" {
		return realRedis{strings.Split(cfg.redis, ","), cfg.redisStop, cfg.redisStart}, nil
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, err
	}
	return &miniRedis{m, m.Addr(), expire(m)}, nil
}

// miniRedis is a Redis in this process, reached over TCP.
type miniRedis struct {
	*miniredis.Miniredis
	addr     string
	noExpiry func()
}

func (m *miniRedis) Kind() string    { return "miniredis in the demo's own process" }
func (m *miniRedis) Addrs() []string { return []string{m.addr} }

func (m *miniRedis) Stop(context.Context) error {
	m.Miniredis.Close()
	return nil
}

func (m *miniRedis) Start(context.Context) error {
	m.FlushAll()
	return m.Restart()
}

func (m *miniRedis) Close() {
	m.noExpiry()
	m.Miniredis.Close()
}

// expiryTick is how often a miniredis looks for keys whose TTL passed, so that they go up to so much too early or late.
// It can look at every command too, but sorts all of its keys to do so, which costs more than all the rest of the demo.
const expiryTick = 10 * time.Millisecond

// expire lets the time of a miniredis pass, until the returned function is called.
func expire(m *miniredis.Miniredis) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(expiryTick)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			now := time.Now()
			m.FastForward(now.Sub(last))
			last = now
		}
	}()
	return func() { close(quit); <-done }
}

// realRedis is a server or a cluster that was there before.
type realRedis struct {
	addrs       []string
	stop, start string // shell commands
}

func (r realRedis) Kind() string                    { return "real, at " + strings.Join(r.addrs, ",") }
func (r realRedis) Addrs() []string                 { return r.addrs }
func (r realRedis) Close()                          {}
func (r realRedis) Stop(ctx context.Context) error  { return shell(ctx, "-redis-stop", r.stop) }
func (r realRedis) Start(ctx context.Context) error { return shell(ctx, "-redis-start", r.start) }

func shell(ctx context.Context, flag, command string) error {
	if command == "" {
		return errors.New("a real Redis needs " + flag)
	}
	if out, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", flag, err, out)
	}
	return nil
}
