//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one patch with its headers.
type mutant struct {
	name       string
	file       string
	invariant  string
	removes    string
	command    string // as written, for messages and to tell equal commands
	test       command
	timeoutRed bool
}

// command is a go test command line: what stands between "go test" and the rest can be added to.
type command struct {
	env  []string
	args []string // after "go test"
}

func readMutant(file string) (mutant, error) {
	m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file}
	text, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	head, diff, found := strings.Cut("\n"+string(text), "\n--- ")
	if !found {
		return m, errors.New("has no unified diff")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "#")), ":")
		if !strings.HasPrefix(line, "#") || !ok {
			continue
		}
		if seen[key] {
			return m, fmt.Errorf("has two headers %q", key)
		}
		seen[key] = true
		if err := m.header(key, strings.TrimSpace(value)); err != nil {
			return m, err
		}
	}
	for _, key := range []string{"Invariant", "Removes", "Test"} {
		if !seen[key] {
			return m, fmt.Errorf("has no header %q", key)
		}
	}
	for line := range strings.Lines("--- " + diff) {
		if path := strings.TrimSpace(line); strings.HasPrefix(line, "+++ ") && strings.HasSuffix(path, "_test.go") {
			return m, errors.New("changes a test: " + strings.TrimPrefix(path, "+++ "))
		}
	}
	return m, nil
}

func (m *mutant) header(key, value string) (err error) {
	switch key {
	case "Invariant":
		m.invariant = value
	case "Removes":
		m.removes = value
	case "Test":
		m.command = value
		m.test, err = parseCommand(value)
	case "Timeout":
		if value != "red" {
			return fmt.Errorf("header Timeout is %q, want red", value)
		}
		m.timeoutRed = true
	default:
		return fmt.Errorf("has an unknown header %q", key)
	}
	return err
}

// parseCommand reads [NAME=value …] go test …, with quotes as in a shell and nothing else of it.
func parseCommand(line string) (command, error) {
	words, err := split(line)
	if err != nil {
		return command{}, err
	}
	var c command
	for len(words) > 0 && strings.Contains(words[0], "=") {
		c.env = append(c.env, words[0])
		words = words[1:]
	}
	if len(words) < 3 || words[0] != "go" || words[1] != "test" {
		return command{}, fmt.Errorf("test %q is no go test command", line)
	}
	c.args = words[2:]
	return c, nil
}

func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quote, inWord := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("test %q has an open quote", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
