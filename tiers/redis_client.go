package tiers

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// longTimeout is how long a timeout of the client may be without a word.
const longTimeout = time.Second

// failoverAddr stands in the options of a sentinel client where others have an address.
const failoverAddr = "FailoverClient"

// checkClient returns an error for a client that the tier cannot work with, and a sentence about settings that weaken it.
// Clients of types that it does not know pass.
func checkClient(rdb redis.UniversalClient) (advice string, bounded bool, err error) {
	if v := reflect.ValueOf(rdb); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", false, errors.New("tiers: NewRedis: the client is nil")
	}
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		if o.Network != "unix" && o.Addr != failoverAddr {
			err = checkAddr(o.Addr)
		}
		return settings{
			o.MaxRetries, o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.MaintNotificationsConfig,
		}.advice(), o.ContextTimeoutEnabled, err
	case *redis.ClusterClient:
		o := c.Options()
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return "", false, errors.New("tiers: NewRedis: the client has ReadOnly, RouteByLatency or RouteRandomly set and reads from replicas, which may hold what was invalidated: unset them")
		}
		for _, addr := range o.Addrs {
			err = errors.Join(err, checkAddr(addr))
		}
		return settings{
			max(o.MaxRetries, 0), o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.MaintNotificationsConfig,
		}.advice(), o.ContextTimeoutEnabled, err
	case *redis.Ring:
		return "", false, errors.New("tiers: NewRedis: the client is a Ring, which moves keys to other nodes and back without a trace: use Redis Cluster or a single node")
	default:
		return "", false, nil
	}
}

// checkAddr returns an error unless addr is host:port.
func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		if n, e := strconv.ParseUint(port, 10, 16); (e != nil || n == 0) && !isService(port) {
			err = errors.New("no port number")
		}
	}
	if err != nil || strings.Contains(addr, "/") {
		return fmt.Errorf("tiers: NewRedis: the Redis address %q is malformed: it must be host:port, without a scheme", addr)
	}
	return nil
}

func isService(port string) bool {
	return port != "" && strings.Trim(port, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// settings are the client's options that matter here, as the client has completed them.
type settings struct {
	maxRetries        int
	contextTimeout    bool
	read, write, dial time.Duration
	maint             *maintnotifications.Config
}

func (s settings) advice() string {
	var found []string
	if s.maxRetries > 1 {
		found = append(found, fmt.Sprintf("MaxRetries is %d (set -1 for none, or 1)", s.maxRetries))
	}
	if !s.contextTimeout {
		found = append(found, "ContextTimeoutEnabled is false (set true)")
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{{"ReadTimeout", s.read}, {"WriteTimeout", s.write}, {"DialTimeout", s.dial}} {
		switch {
		case t.value <= 0:
			found = append(found, t.name+" is off (set 500ms)")
		case t.value > longTimeout:
			found = append(found, fmt.Sprintf("%s is %v (set 500ms)", t.name, t.value))
		}
	}
	if s.maint.IsEnabled() {
		found = append(found, "MaintNotificationsConfig.Mode is not disabled (it relaxes timeouts to 10s)")
	}
	if len(found) == 0 {
		return ""
	}
	return "settings of the Redis client weaken the tier: " + strings.Join(found, "; ")
}
