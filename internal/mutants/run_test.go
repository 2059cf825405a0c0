//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

const code = `package p

func Clamp(n int) int {
	if n > 10 {
		return 10
	}
	return n
}

func Ready() bool {
	return true
}

func Half(n int) int {
	return n / 2
}
`

const tests = `package p

import "testing"

func TestClamp(t *testing.T) {
	if Clamp(11) != 10 {
		t.Fatal("not clamped")
	}
}

func TestReady(t *testing.T) {
	for !Ready() {
	}
}

func TestSkips(t *testing.T) { t.Skip("no server") }

func TestAlwaysRed(t *testing.T) { t.Fatal("red") }
`

// patch is a mutant that puts replacement in the place of the given line of code.
func patch(test, line, replacement string, extra ...string) string {
	old := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	var b strings.Builder
	b.WriteString("# Invariant: I0\n# Removes: something\n# Test: " + test + "\n")
	for _, header := range extra {
		b.WriteString("# " + header + "\n")
	}
	fmt.Fprintf(&b, "--- a/p/p.go\n+++ b/p/p.go\n@@ -1,%[1]d +1,%[1]d @@\n", len(old))
	for _, l := range old {
		if l == line {
			b.WriteString("-" + l + "\n+" + replacement + "\n")
		} else {
			b.WriteString(" " + l + "\n")
		}
	}
	return b.String()
}

const (
	testClamp = "go test -run '^TestClamp$' ./p"
	testReady = "go test -run '^TestReady$' ./p"
	clampLine = "		return 10"
	readyLine = "	return true"
)

// newRepo makes a repository with a module in it whose package is committed and whose mutants are not.
func newRepo(t *testing.T, mutants map[string]string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testutil.Skip(t, "no git")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module example.com/throwaway\n\ngo 1.26\n")
	write("p/p.go", code)
	write("p/p_test.go", tests)
	write("r/r_test.go", "package r\n\nimport (\n\t\"testing\"\n\n\t\"example.com/throwaway/p\"\n)\n\n"+
		"func TestHalf(t *testing.T) {\n\tif p.Half(4) != 2 {\n\t\tt.Fatal()\n\t}\n}\n")
	gitOK(t, dir, "init", "--quiet")
	gitOK(t, dir, "add", ".")
	gitOK(t, dir, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", "first")
	for name, text := range mutants {
		write("testdata/mutants/"+name+".patch", text)
	}
	return dir
}

func gitOK(t *testing.T, dir string, args ...string) string {
	t.Helper()
	output, err := git(t.Context(), dir, nil, args...)
	assert.NoError(t, err)
	return output
}

// judge runs the mutants and gives the lines that are not quoted output, and the exit code. It checks that nothing is left.
// After limit it interrupts the run.
func judge(t *testing.T, dir string, limit time.Duration, o options) ([]string, int) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := gitOK(t, dir, "status", "--porcelain")
	var out bytes.Buffer
	o.dir, o.out = dir, &out
	if o.only == "" {
		o.only = "*"
	}
	if o.timeout == 0 {
		o.timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	exit := run(ctx, &o)
	t.Logf("output:\n%s", out.String())

	assert.Equal(t, gitOK(t, dir, "status", "--porcelain"), before, "the user's tree")
	worktrees := gitOK(t, dir, "worktree", "list", "--porcelain")
	assert.Equal(t, strings.Count(worktrees, "worktree "), 1, worktrees)
	left, err := filepath.Glob(filepath.Join(temp, "snowshed-*"))
	assert.NoError(t, err)
	assert.Equal(t, len(left), 0, "left in the temporary directory: ", left)

	var lines []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, " ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines, exit
}

func TestVerdicts(t *testing.T) {
	dir := newRepo(t, map[string]string{
		"a-red":           patch(testClamp, clampLine, "		return n"),
		"b-survived":      patch(testClamp, readyLine, "	return false"),
		"c-no-apply":      strings.ReplaceAll(patch(testClamp, clampLine, "		return n"), "return 10", "return 12"),
		"d-build":         patch(testClamp, clampLine, "		return undefined"),
		"e-no-tests":      patch("go test -run '^TestGone$' ./p", clampLine, "		return n"),
		"f-red-before":    patch("go test -run '^TestAlwaysRed$' ./p", clampLine, "		return n"),
		"g-skips":         patch("go test -run '^TestSkips$' ./p", clampLine, "		return n"),
		"h-red-again":     patch(testClamp, clampLine, "		return 11"),
		"i-test-mutant":   strings.ReplaceAll(patch(testClamp, clampLine, "		return n"), "p.go", "p_test.go"),
		"j-no-header":     strings.ReplaceAll(patch(testClamp, clampLine, "		return n"), "# Removes: something\n", ""),
		"k-not-go-test":   patch("true", clampLine, "		return n"),
		"l-vet":           patch(testClamp, "	if n > 10 {", "	if n > 10 || n > 10 {"),
		"n-one-of-two":    patch("go test -run '^Test(Clamp|Half)$' ./p ./r", "func Half(n int) int {", "func Half(n, _ int) int {"),
		"m-wrong-package": patch("go test -run '^TestClamp$' ./q", clampLine, "		return n"),
	})
	want := []string{
		"red       a-red",
		"SURVIVED  b-survived (I0: something; " + testClamp + ")",
		"BROKEN    c-no-apply (the patch does not apply)",
		"BROKEN    d-build (with the patch the test did not build, or ended before a test ran: " + testClamp + ")",
		"BROKEN    e-no-tests (without the patch the test [no tests to run]: go test -run '^TestGone$' ./p)",
		"BROKEN    f-red-before (without the patch the test failed: go test -run '^TestAlwaysRed$' ./p)",
		"skipped   g-skips (the test skips itself on this machine: go test -run '^TestSkips$' ./p)",
		"red       h-red-again",
		"BROKEN    i-test-mutant (changes a test: b/p/p_test.go)",
		`BROKEN    j-no-header (has no header "Removes")`,
		`BROKEN    k-not-go-test (test "true" is no go test command)`,
		"BROKEN    l-vet (with the patch the test did not build, or ended before a test ran: " + testClamp + ")",
		"BROKEN    m-wrong-package (without the patch the test did not build, or ended before a test ran: go test -run '^TestClamp$' ./q)",
		"BROKEN    n-one-of-two (with the patch the test did not build, or ended before a test ran: go test -run '^Test(Clamp|Half)$' ./p ./r)",
		"mutants: 2 red, 1 survived, 10 broken, 1 skipped",
	}
	lines, exit := judge(t, dir, time.Hour, options{})
	assert.Equal(t, strings.Join(lines, "\n"), strings.Join(want, "\n"))
	assert.Equal(t, exit, 1, "exit code")
}

func TestExitCode(t *testing.T) {
	dir := newRepo(t, map[string]string{
		"red":      patch(testClamp, clampLine, "		return n"),
		"survived": patch(testClamp, readyLine, "	return false"),
		"skips":    patch("go test -run '^TestSkips$' ./p", clampLine, "		return n"),
	})
	cases := []struct {
		name string
		options
		want int
	}{
		{"red, and one skipped", options{only: "[rs][ek]*"}, 0},
		{"survived", options{only: "survived"}, 1},
		{"skipped but required", options{only: "[rs][ek]*", requireAll: true}, 1},
		{"nothing judged", options{only: "skips"}, 1},
		{"no match", options{only: "x*"}, 1},
		{"mutants not committed", options{head: true}, 1},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			_, exit := judge(t, dir, time.Hour, tt.options)
			assert.Equal(t, exit, tt.want, "exit code")
		})
	}
}

func TestTimeout(t *testing.T) {
	const own = "go test -timeout 1s -run '^TestReady$' ./p"
	dir := newRepo(t, map[string]string{
		"a-allowed": patch(testReady, readyLine, "	return false", "Timeout: red"),
		"b-hung":    patch(testReady, readyLine, "	return false"),
		"c-own":     patch(own, readyLine, "	return false"),
	})
	lines, exit := judge(t, dir, time.Hour, options{timeout: 3 * time.Second})
	want := []string{
		"red       a-allowed",
		"BROKEN    b-hung (with the patch the test timed out: " + testReady + ")",
		"BROKEN    c-own (with the patch the test timed out: " + own + ")",
		"mutants: 1 red, 0 survived, 2 broken, 0 skipped",
	}
	assert.Equal(t, lines, want)
	assert.Equal(t, exit, 1, "exit code")
}

func TestInterruptCleansUp(t *testing.T) {
	dir := newRepo(t, map[string]string{"hangs": patch(testReady, readyLine, "	return false")})
	start := time.Now()
	_, exit := judge(t, dir, 4*time.Second, options{timeout: time.Hour})
	assert.Equal(t, exit, 1, "exit code")
	assert.True(t, time.Since(start) < 30*time.Second, "took ", time.Since(start))
}
