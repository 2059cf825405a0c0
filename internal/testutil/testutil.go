// Package testutil gives tests real servers and a TestMain.
//
// Servers come from the environment, else from binaries of this machine; a test that finds none is skipped, and says so
// in one line. A server is started once per test process, listens on the loopback interface only, and does not outlive
// the process, whatever ends it.
package testutil

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests, stops the servers that they started, and fails the run when goroutines are left.
// It gives the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }
func Main(m *testing.M, opts ...goleak.Option) int {
	code := m.Run()
	stopAll()
	if code != 0 {
		return code
	}
	if err := goleak.Find(opts...); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines left after the tests:", err)
		return 1
	}
	return 0
}

// Skip ends the test because this machine lacks something, and prints one line: SKIP (reason): TestName.
// The line also goes to the end of the file that SNOWSHED_SKIPS names, because go test hides the output of a package that
// passes. With SNOWSHED_REQUIRE_ALL=1 the test fails instead.
func Skip(tb testing.TB, reason string) {
	tb.Helper()
	line := fmt.Sprintf("SKIP (%s): %s", reason, tb.Name())
	if os.Getenv("SNOWSHED_REQUIRE_ALL") == "1" {
		tb.Fatal(line)
	}
	fmt.Println(line)
	if path := os.Getenv("SNOWSHED_SKIPS"); path != "" {
		if err := appendLine(path, line); err != nil {
			tb.Fatal("SNOWSHED_SKIPS:", err)
		}
	}
	tb.SkipNow()
}

// appendLine writes the line in one call: test processes share the file.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
