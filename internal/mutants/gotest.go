//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// outcome is what one go test command came to.
type outcome int

const (
	passed outcome = iota
	failed
	skipped     // passed, and a test skipped itself
	buildFailed // or ended before the first test, for whatever reason
	noTests     // passed, and some package had no test to run
	hung
	interrupted
)

func (o outcome) String() string {
	return [...]string{
		"passed", "failed", "skipped", "did not build, or ended before a test ran", "[no tests to run]", "timed out", "interrupted",
	}[o]
}

// event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// startLimit is for what comes before the first test: the build and TestMain.
const startLimit = 15 * time.Minute

var errHung = errors.New("timeout")

// goTest runs the command in dir. The timeout begins with the first test, so that builds may take their time. The process
// has a group of its own: go test does not pass a kill on to the test binary.
func goTest(ctx context.Context, dir string, c command, timeout time.Duration) (outcome, string) {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(startLimit, func() { cancel(errHung) })
	defer limit.Stop()

	// Should this process be killed, go test's own limit, a little later than ours, ends the test.
	flags := []string{"test", "-json", "-count=1", "-timeout=" + (timeout + time.Minute).String()}
	cmd := exec.CommandContext(limited, "go", slices.Concat(flags, c.args)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	output := watcher{firstTest: func() { limit.Reset(timeout) }}
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()

	ran, text := readEvents(output.buffer.Bytes())
	switch {
	case ctx.Err() != nil:
		return interrupted, text
	case ran.timedOut, errors.Is(context.Cause(limited), errHung):
		return hung, text
	case err != nil && (ran.tests == 0 || ran.buildFailed):
		return buildFailed, text
	case err != nil:
		return failed, text
	case ran.empty || ran.tests == 0:
		return noTests, text
	case ran.skips > 0:
		return skipped, text
	default:
		return passed, text
	}
}

// watcher keeps the output and notices the first test. One goroutine writes to it.
type watcher struct {
	buffer    bytes.Buffer // not embedded: its ReadFrom would pass Write by
	firstTest func()
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.buffer.Write(p)
	if w.firstTest != nil && bytes.Contains(w.buffer.Bytes(), []byte(`"Action":"run"`)) {
		w.firstTest()
		w.firstTest = nil
	}
	return n, err
}

// summary counts what a run did.
type summary struct {
	tests int  // tests and subtests that started
	skips int  // tests and subtests that skipped themselves
	empty bool // a package had nothing to run

	buildFailed bool // of some package, while tests of others may have run
	timedOut    bool // by a -timeout of the command itself
}

func readEvents(output []byte) (summary, string) {
	var s summary
	var text strings.Builder
	for line := range bytes.Lines(output) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			text.Write(line) // of the go command itself
			continue
		}
		text.WriteString(e.Output)
		switch {
		case e.Action == "run":
			s.tests++
		case e.Action == "skip" && e.Test != "":
			s.skips++
		case strings.Contains(e.Output, "[no tests to run]"), strings.Contains(e.Output, "[no test files]"):
			s.empty = true
		case e.Action == "build-fail", strings.Contains(e.Output, "[build failed]"), strings.Contains(e.Output, "[setup failed]"):
			s.buildFailed = true
		case strings.HasPrefix(e.Output, "panic: test timed out after"):
			s.timedOut = true
		}
	}
	return s, text.String()
}
