package tiers_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/snowshed-go/snowshed/internal/testutil"
	"github.com/snowshed-go/snowshed/tiers"
	"github.com/snowshed-go/snowshed/tiers/tierstest"
)

// tierOf is a Redis tier with one view, for the conformance suite.
type tierOf struct {
	*tiers.RedisView[string, tierstest.Value]
	*tiers.Redis
}

var testCaches atomic.Int64

// freshName returns a cache name that no other test uses: real servers are shared and nothing is flushed.
func freshName() string { return fmt.Sprint("t", time.Now().UnixNano(), "-", testCaches.Add(1)) }

func openTier(t *testing.T, rdb redis.UniversalClient, timeout time.Duration) tierOf {
	t.Helper()
	r, err := tiers.NewRedis(rdb, tiers.RedisOptions{Prefix: "test", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	v, err := tiers.NewRedisView(r, tiers.RedisViewOptions[string, tierstest.Value]{Name: freshName()})
	if err != nil {
		t.Fatal(err)
	}
	return tierOf{v, r}
}

// plainOptions are a client's options as NewRedis wants them.
func plainOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func clusterOptions(addrs []string) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: addrs, ContextTimeoutEnabled: true,
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// patient is a Timeout that a loaded machine under the race detector keeps.
const patient = 5 * time.Second

func TestRedisConformsInABubble(t *testing.T) {
	tierstest.Run(t, tierstest.Env{
		In:    synctest.Test,
		Sleep: sleep,
		Open:  func(t *testing.T) tierstest.Tier { t.Helper(); return openTier(t, bubbleClient(t), patient) },
	})
}

// bubbleClient returns a client of a Redis that runs in the synctest bubble of the test, on its time.
func bubbleClient(t *testing.T) *redis.Client {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	o := plainOptions("")
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		c, err := m.Dial()
		return newPumped(c), err
	}
	return redis.NewClient(o)
}

// pumped is a connection whose writes do not wait for the reader, as those of a socket: the bare pipe would lock up when
// a pipeline is longer than what the server reads before it answers.
type pumped struct {
	net.Conn
	writes chan []byte
	closed chan struct{}
	once   sync.Once
}

func newPumped(c net.Conn) *pumped {
	p := &pumped{Conn: c, writes: make(chan []byte, 1024), closed: make(chan struct{})}
	go func() {
		for {
			select {
			case b := <-p.writes:
				if _, err := c.Write(b); err != nil {
					return
				}
			case <-p.closed:
				return
			}
		}
	}()
	return p
}

func (p *pumped) Write(b []byte) (int, error) {
	select {
	case <-p.closed:
		return 0, net.ErrClosed
	case p.writes <- append([]byte(nil), b...):
		return len(b), nil
	}
}

func (p *pumped) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Conn.Close()
}

func TestRedisConformsOverTCP(t *testing.T) {
	tierstest.Run(t, tierstest.Env{
		Sleep: sleep,
		Open: func(t *testing.T) tierstest.Tier {
			t.Helper()
			m := miniredis.RunT(t)
			m.ClockTTL(true)
			return openTier(t, redis.NewClient(plainOptions(m.Addr())), patient)
		},
	})
}

func TestRedisConformsOnARealServer(t *testing.T) {
	addr := testutil.Redis(t)
	tierstest.Run(t, tierstest.Env{
		Sleep: sleep,
		Open: func(t *testing.T) tierstest.Tier {
			t.Helper()
			return openTier(t, redis.NewClient(plainOptions(addr)), patient)
		},
	})
}

func TestRedisConformsOnARealCluster(t *testing.T) {
	addrs := testutil.RedisCluster(t)
	tierstest.Run(t, tierstest.Env{
		Sleep: sleep,
		Open: func(t *testing.T) tierstest.Tier {
			t.Helper()
			return openTier(t, redis.NewClusterClient(clusterOptions(addrs)), patient)
		},
	})
}

func sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}
