package testutil

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// errMissing says that this machine has no binary for the server.
var errMissing = errors.New("no binary")

// startTimeout is generous: a database on a busy two-core machine, under the race detector.
const startTimeout = 60 * time.Second

// guardScript runs a server for exactly as long as its standard input stays open. The test process holds the other end
// of that pipe, so the server goes away with the process even after a panic, os.Exit or SIGKILL; no code has to run for it.
const guardScript = `
trap '' HUP INT QUIT TERM
dir=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
(read -r _; kill -9 "$server") <&3 2>/dev/null &
guard=$!
wait "$server"
echo "` + exitMark + `$?"
kill -9 "$guard" 2>/dev/null
rm -rf "$dir"
`

const exitMark = "snowshed: server ended with status "

// server is a process behind guardScript, with a directory of its own that is removed after it.
type server struct {
	name string
	cmd  *exec.Cmd
	hold *os.File // write end of the guard's standard input; open = the server may live
	log  *os.File
}

var running struct {
	mu      sync.Mutex
	servers []*server
}

// start runs binary in the directory dir and takes ownership of dir.
func start(dir, binary string, args ...string) (*server, error) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	cmd := exec.Command(shell, append([]string{"-c", guardScript, "guard", dir, binary}, args...)...)
	cmd.Dir = dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, log, log
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		return nil, errors.Join(err, w.Close(), log.Close())
	}
	s := &server{name: filepath.Base(binary), cmd: cmd, hold: w, log: log}
	running.mu.Lock()
	running.servers = append(running.servers, s)
	running.mu.Unlock()
	return s, nil
}

// stop ends the server and waits until it and its directory are gone. It is called once.
func (s *server) stop() {
	_ = s.hold.Close()
	_ = s.cmd.Wait() //nolint:errcheck // the status of the script says nothing
	_ = s.log.Close()
}

func stopAll() {
	running.mu.Lock()
	defer running.mu.Unlock()
	for _, s := range running.servers {
		s.stop()
	}
	running.servers = nil
}

// await asks ready until it gives nil, and fails with the server's log when the server ended or time is up.
func (s *server) await(ready func() error) error {
	deadline := time.Now().Add(startTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		output := s.output()
		if bytes.Contains(output, []byte(exitMark)) || time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready: %w\n%s", s.name, err, output)
		}
		<-tick.C
	}
}

// output reads the log through the open file: the guard may have removed its name.
func (s *server) output() []byte {
	output, err := io.ReadAll(io.NewSectionReader(s.log, 0, 1<<20))
	if err != nil {
		return []byte(err.Error())
	}
	return output
}

// freePorts gives n different loopback ports that were free a moment ago.
func freePorts(n int) ([]string, error) {
	ports := make([]string, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // only after all are chosen, so that they differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// lookPath finds the first of the binaries, also where servers live outside the PATH of an ordinary user.
func lookPath(names ...string) (string, error) {
	for _, name := range names {
		for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
			if path, err := exec.LookPath(candidate); err == nil {
				return filepath.Abs(path)
			}
		}
	}
	return "", errMissing
}

// retried starts a server again on other ports when another process was faster to take one of them.
func retried[T any](start func() (T, error)) (T, error) {
	var value T
	var err error
	for range 3 {
		value, err = start()
		if err == nil || errors.Is(err, errMissing) {
			break
		}
	}
	return value, err
}

// require skips the test when the server's binary is missing, and fails it when the server did not start.
func require[T any](tb testing.TB, name string, value T, err error) T {
	tb.Helper()
	if errors.Is(err, errMissing) {
		Skip(tb, "no "+name)
	}
	if err != nil {
		tb.Fatalf("cannot start %s: %v", name, err)
	}
	return value
}
