//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	buildFailed // or never came to run a test, for whatever reason
	noTests     // passed, and some package had no test to run
	hung
	interrupted
)

func (o outcome) String() string {
	return [...]string{
		"passed", "failed", "skipped", "failed before a test ran (build failure?)", "[no tests to run]", "timed out", "interrupted",
	}[o]
}

// event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// goTest runs the command in dir. The build comes first and has no limit, so that the timeout is for the tests alone.
func goTest(ctx context.Context, dir string, c command, timeout time.Duration) (outcome, string) {
	bin, err := os.MkdirTemp("", "snowshed-mutants-bin-")
	if err != nil {
		return buildFailed, err.Error()
	}
	defer os.RemoveAll(bin)
	output, err := goCommand(ctx, dir, c, "-c", "-o", bin+"/")
	if err != nil {
		return ended(ctx, buildFailed), string(output)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	output, err = goCommand(limited, dir, c, "-json", "-count=1", "-timeout=0")
	ran, text := readEvents(output)
	switch {
	case limited.Err() != nil:
		return ended(ctx, hung), text
	case ran.timedOut:
		return hung, text
	case err != nil && ran.tests == 0:
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

func ended(ctx context.Context, o outcome) outcome {
	if ctx.Err() != nil {
		return interrupted
	}
	return o
}

// goCommand runs go test in a process group of its own: go test does not pass a kill on to the test binary.
func goCommand(ctx context.Context, dir string, c command, flags ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test"}, flags, c.args)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	return output.Bytes(), err
}

// summary counts what a run did.
type summary struct {
	tests int  // tests and subtests that started
	skips int  // tests and subtests that skipped themselves
	empty bool // a package had nothing to run

	timedOut bool // the command has a -timeout of its own
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
		case strings.HasPrefix(e.Output, "panic: test timed out after"):
			s.timedOut = true
		}
	}
	return s, text.String()
}
