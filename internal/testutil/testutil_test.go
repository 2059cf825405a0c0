package testutil_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestRedisAnswers(t *testing.T) {
	addr := testutil.Redis(t)
	assert.Equal(t, testutil.Redis(t), addr, "the address of the shared server")
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	key := t.Name()
	assert.NoError(t, client.Set(t.Context(), key, "v", time.Minute).Err())
	value, err := client.Get(t.Context(), key).Result()
	assert.NoError(t, err)
	assert.Equal(t, value, "v")
}

func TestRedisClusterServesAllSlots(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testutil.RedisCluster(t)})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	for i := range 100 {
		assert.NoError(t, client.Set(t.Context(), fmt.Sprint(t.Name(), i), i, time.Minute).Err())
	}
	var masters atomic.Int64 // ForEachMaster calls from several goroutines
	err := client.ForEachMaster(t.Context(), func(context.Context, *redis.Client) error { masters.Add(1); return nil })
	assert.NoError(t, err)
	assert.True(t, masters.Load() >= 3, masters.Load(), " masters")
}

func TestMySQLDatabasesAreEmptyAndPrivate(t *testing.T) {
	first, second := testutil.MySQL(t), testutil.MySQL(t)
	assert.True(t, first != second, "two callers got the same database")
	for _, dsn := range []string{first, second} {
		db, err := sql.Open("mysql", dsn)
		assert.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		_, err = db.ExecContext(t.Context(), "CREATE TABLE t (id BIGINT PRIMARY KEY) ENGINE=InnoDB")
		assert.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
		assert.NoError(t, err)
	}
}

func TestMySQLDropsTheDatabase(t *testing.T) {
	var dsn string
	t.Run("user", func(t *testing.T) { dsn = testutil.MySQL(t) })
	if dsn == "" {
		return // skipped, and the subtest said so
	}
	db, err := sql.Open("mysql", dsn)
	assert.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	assert.Error(t, db.PingContext(t.Context()), "the database is still there")
}

// The tests below run this test binary again as a child, with another environment.

func child(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	assert.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), "SNOWSHED_TEST_CHILD=1")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// isChild tells a test that is a role for a child process from a run of the whole suite, where it does nothing.
func isChild() bool { return os.Getenv("SNOWSHED_TEST_CHILD") != "" }

func TestChildSkips(t *testing.T) {
	if isChild() {
		testutil.Skip(t, "no such thing")
	}
}

func TestSkipPrintsOneLine(t *testing.T) {
	list := filepath.Join(t.TempDir(), "skips")
	output, err := child(t, "TestChildSkips", "SNOWSHED_REQUIRE_ALL=", "SNOWSHED_SKIPS="+list).CombinedOutput()
	assert.NoError(t, err, string(output))
	const line = "SKIP (no such thing): TestChildSkips\n"
	assert.Equal(t, string(output), line+"PASS\n")
	listed, err := os.ReadFile(list)
	assert.NoError(t, err)
	assert.Equal(t, string(listed), line)
}

func TestSkipFailsWhenAllIsRequired(t *testing.T) {
	output, err := child(t, "TestChildSkips", "SNOWSHED_REQUIRE_ALL=1").CombinedOutput()
	assert.Error(t, err, "the run passed")
	assert.True(t, strings.Contains(string(output), "--- FAIL: TestChildSkips"), string(output))
}

func TestMissingBinarySkips(t *testing.T) {
	output, err := child(t, "TestRedisAnswers", "SNOWSHED_REQUIRE_ALL=", "SNOWSHED_SKIPS=", "SNOWSHED_REDIS_ADDR=", "PATH=").
		CombinedOutput()
	assert.NoError(t, err, string(output))
	assert.Equal(t, string(output), "SKIP (no redis-server): TestRedisAnswers\nPASS\n")
}

func TestChildLeaksGoroutine(*testing.T) {
	if isChild() {
		go func() { select {} }()
	}
}

func TestMainFindsLeakedGoroutines(t *testing.T) {
	output, err := child(t, "TestChildLeaksGoroutine").CombinedOutput()
	assert.Error(t, err, "the run passed")
	assert.True(t, strings.Contains(string(output), "goroutines left after the tests"), string(output))
}

func TestChildIsKilledWithServer(t *testing.T) {
	if isChild() {
		fmt.Println(testutil.Redis(t))
		select {} // until the parent kills this process
	}
}

func TestServerDiesWithItsProcess(t *testing.T) {
	cmd := child(t, "TestChildIsKilledWithServer", "SNOWSHED_REDIS_ADDR=")
	temp := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	stdout, err := cmd.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	assert.NoError(t, err)
	addr := strings.TrimSpace(line)
	if strings.HasPrefix(addr, "SKIP") {
		testutil.Skip(t, "no redis-server")
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		t.Fatalf("child printed %q", line)
	}
	dial := func() error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	assert.NoError(t, dial(), "the child's server")
	assert.NoError(t, cmd.Process.Kill())
	assert.Error(t, cmd.Wait())
	assert.Eventually(t, 10*time.Second, func() bool { return dial() != nil }, "the server is gone")
	assert.Eventually(t, 10*time.Second, func() bool {
		left, err := filepath.Glob(filepath.Join(temp, "snowshed-*"))
		return err == nil && len(left) == 0
	}, "its directory is gone")
}
