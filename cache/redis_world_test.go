package cache_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/tiers"
)

// world is a Redis in memory and a tier over it, whose traffic a test can hold back or break.
type world struct {
	*tiers.Redis
	server *miniredis.Miniredis
	wire   *wire
}

// newWorld returns a Redis whose calls may take an hour, so that no test's pause is a timeout.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, tiers.RedisOptions{Timeout: time.Hour})
}

func newWorldWith(t *testing.T, o tiers.RedisOptions) *world {
	t.Helper()
	w := &world{server: miniredis.NewMiniRedis(), wire: &wire{}}
	w.server.ClockTTL(true)
	rdb := redis.NewClient(&redis.Options{
		Dialer:     func(context.Context, string, string) (net.Conn, error) { return w.server.Dial() },
		MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true, PoolSize: 64,
		ReadTimeout: time.Second, WriteTimeout: time.Second, DialTimeout: time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rdb.AddHook(w.wire)
	o.Prefix = "test"
	var err error
	w.Redis, err = tiers.NewRedis(rdb, o)
	assert.NoError(t, err)
	t.Cleanup(func() {
		w.wire.clear()
		assert.NoError(t, w.Close(context.Background()))
		assert.NoError(t, rdb.Close())
		w.server.Close()
	})
	return w
}

// holds reports whether Redis holds a value for the key of a cache called things.
func (w *world) holds(key string) bool {
	for _, k := range w.server.Keys() {
		if strings.Contains(k, "{"+key+"}") && !strings.HasSuffix(k, ":c") {
			return true
		}
	}
	return false
}

// wire is a hook of the client's through which all calls pass.
type wire struct {
	mu     sync.Mutex
	rules  []*rule
	pauses []*pause
}

// rule acts on the first call that has the command.
type rule struct {
	command string
	used    bool
	always  bool
	before  func() error // an error is the call's, and nothing is sent
	after   func()
}

func (w *wire) add(r *rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
}

// holdRequest lets the next call of the command stand before it is sent.
func (w *wire) holdRequest(command string) *pause {
	p := w.pause()
	w.add(&rule{command: command, before: func() error { p.stand(); return nil }})
	return p
}

// holdReply lets the next call of the command stand after Redis has run it.
func (w *wire) holdReply(command string) *pause {
	p := w.pause()
	w.add(&rule{command: command, after: p.stand})
	return p
}

// always breaks all calls of the command.
func (w *wire) always(command string, err error) {
	w.add(&rule{command: command, always: true, before: func() error { return err }})
}

// pause returns a pause that ends with the world, should the test fail before.
func (w *wire) pause() *pause {
	p := newPause()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pauses = append(w.pauses, p)
	return p
}

// clear ends all rules and pauses.
func (w *wire) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pauses {
		p.release()
	}
	w.rules, w.pauses = nil, nil
}

func (w *wire) match(cmds []redis.Cmder) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rules {
		for _, cmd := range cmds {
			if cmd.Name() == r.command && !r.used {
				r.used = !r.always
				return r
			}
		}
	}
	return &rule{}
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r := w.match(cmds)
		if r.before != nil {
			if err := r.before(); err != nil {
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
				return err
			}
		}
		err := next(ctx, cmds)
		if r.after != nil {
			r.after()
		}
		return err
	}
}
