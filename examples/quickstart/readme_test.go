package main

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsThisProgram keeps the README's snippet compiled: each of its lines stands in this program, in order.
func TestReadmeShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, snippet, ok := strings.Cut(string(readme), "```go\n")
	if !ok {
		t.Fatal("the README has no Go snippet")
	}
	snippet, _, _ = strings.Cut(snippet, "```")
	rest := strings.Split(string(program), "\n")
	for line := range strings.Lines(snippet) {
		line = strings.TrimSpace(line)
		found := false
		for i, have := range rest {
			if strings.TrimSpace(have) == line {
				rest, found = rest[i+1:], true
				break
			}
		}
		if !found {
			t.Errorf("the program does not have this line of the README, or not in this order:\n%s", line)
		}
	}
}
