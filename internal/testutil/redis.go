package testutil

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	sharedRedis   = sync.OnceValues(func() (string, error) { return retried(startRedis) })
	sharedCluster = sync.OnceValues(func() ([]string, error) { return retried(startCluster) })
)

// Redis gives the address of a real Redis server: SNOWSHED_REDIS_ADDR, else a local redis-server.
// All tests of the process share it, so each keeps to keys of its own; nothing is flushed between them.
func Redis(tb testing.TB) string {
	tb.Helper()
	if addr := os.Getenv("SNOWSHED_REDIS_ADDR"); addr != "" {
		return addr
	}
	addr, err := sharedRedis()
	return require(tb, "redis-server", addr, err)
}

// OwnRedis gives the address of a local redis-server that this test alone uses, and may flush.
func OwnRedis(tb testing.TB) string {
	tb.Helper()
	addr, err := retried(startRedis)
	return require(tb, "redis-server", addr, err)
}

// RedisCluster gives the addresses of the nodes of a real Redis Cluster: SNOWSHED_REDIS_CLUSTER_ADDRS, else three local
// masters without replicas. All tests of the process share it, as with Redis.
func RedisCluster(tb testing.TB) []string {
	tb.Helper()
	if addrs := os.Getenv("SNOWSHED_REDIS_CLUSTER_ADDRS"); addrs != "" {
		return strings.FieldsFunc(addrs, func(r rune) bool { return r == ',' || r == ' ' })
	}
	addrs, err := sharedCluster()
	return require(tb, "redis-server", addrs, err)
}

func startRedis() (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return startRedisNode(ports[0])
}

func startRedisNode(port string, args ...string) (string, error) {
	binary, err := lookPath("redis-server")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "snowshed-redis-")
	if err != nil {
		return "", err
	}
	s, err := start(dir, binary, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--databases", "16",
	}, args...)...)
	if err != nil {
		return "", err
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	return addr, s.await(func() error {
		_, err := redisCommand(addr, "PING")
		return err
	})
}

const clusterSlots = 16384

func startCluster() ([]string, error) {
	const nodes = 3
	ports, err := freePorts(2 * nodes)
	if err != nil {
		return nil, err
	}
	clients, buses := ports[:nodes], ports[nodes:]
	addrs := make([]string, nodes)
	for i := range nodes {
		addrs[i], err = startRedisNode(clients[i], "--cluster-enabled", "yes", "--cluster-port", buses[i],
			"--cluster-announce-ip", "127.0.0.1", "--cluster-node-timeout", "5000", "--cluster-config-file", "nodes.conf")
		if err != nil {
			return nil, err
		}
		first, end := i*clusterSlots/nodes, (i+1)*clusterSlots/nodes
		if err := redisOK(addrs[i], fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", first, end-1)); err != nil {
			return nil, err
		}
	}
	for i := 1; i < nodes; i++ {
		if err := redisOK(addrs[0], fmt.Sprintf("CLUSTER MEET 127.0.0.1 %s %s", clients[i], buses[i])); err != nil {
			return nil, err
		}
	}
	return addrs, awaitCluster(addrs)
}

// awaitCluster waits until every node knows every other and serves all slots.
func awaitCluster(addrs []string) error {
	deadline := time.Now().Add(startTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	want := []string{
		"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(len(addrs)),
		"cluster_size:" + strconv.Itoa(len(addrs)), "cluster_slots_ok:" + strconv.Itoa(clusterSlots),
	}
	for _, addr := range addrs {
		for {
			info, err := redisCommand(addr, "CLUSTER INFO")
			if err == nil && containsAll(info, want) {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("cluster node %s is not ready: %w\n%s", addr, err, info)
			}
			<-tick.C
		}
	}
	return nil
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func redisOK(addr, command string) error {
	reply, err := redisCommand(addr, command)
	if err == nil && reply != "OK" {
		err = errors.New("reply is " + strconv.Quote(reply))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// redisCommand sends one inline command on a connection of its own and gives a simple or bulk string reply.
func redisCommand(addr, command string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch {
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	case strings.HasPrefix(line, "$"):
		size, err := strconv.Atoi(line[1:])
		if err != nil || size < 0 {
			return "", errors.New("unexpected reply " + strconv.Quote(line))
		}
		body := make([]byte, size)
		_, err = io.ReadFull(r, body)
		return string(body), err
	default:
		return "", errors.New(strings.TrimPrefix(line, "-"))
	}
}
