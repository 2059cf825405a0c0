//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

type options struct {
	dir        string // somewhere in the repository
	only       string
	head       bool
	timeout    time.Duration
	requireAll bool // a mutant whose test skips is broken
	out        io.Writer
}

// runner judges mutants one after the other in a worktree.
type runner struct {
	*options
	tree      *worktree
	baselines map[string]result // by test command: many mutants share a test
	counts    map[string]int
}

type result struct {
	outcome outcome
	output  string
}

// run judges all chosen mutants and gives the exit code.
func run(ctx context.Context, o *options) (code int) {
	tree, err := newWorktree(ctx, o.dir, o.head)
	if err != nil {
		o.printf("mutants: %v\n", err)
		return 1
	}
	defer func() {
		if err := tree.remove(ctx); err != nil {
			o.printf("mutants: %v\n", err)
			code = 1
		}
	}()
	files, err := chosen(tree.dir, o.only)
	if err != nil {
		o.printf("mutants: %v\n", err)
		return 1
	}
	r := &runner{options: o, tree: tree, baselines: map[string]result{}, counts: map[string]int{}}
	for _, file := range files {
		r.judge(ctx, file)
		if ctx.Err() != nil {
			o.printf("mutants: interrupted\n")
			return 1
		}
	}
	o.printf("mutants: %d red, %d survived, %d broken, %d skipped\n",
		r.counts["red"], r.counts["SURVIVED"], r.counts["BROKEN"], r.counts["skipped"])
	if r.counts["SURVIVED"]+r.counts["BROKEN"] > 0 || r.counts["red"] == 0 {
		return 1
	}
	return 0
}

func chosen(tree, only string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(tree, "testdata", "mutants", only+".patch"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no file matches testdata/mutants/%s.patch", only)
	}
	return files, err
}

func (r *runner) judge(ctx context.Context, file string) {
	m, err := readMutant(file)
	if err != nil {
		r.report(&m, "BROKEN", err.Error(), "")
		return
	}
	base, known := r.baselines[m.command]
	if !known {
		base.outcome, base.output = goTest(ctx, r.tree.dir, m.test, r.timeout)
		r.baselines[m.command] = base
	}
	switch base.outcome {
	case passed:
		r.mutate(ctx, &m)
	case skipped:
		verdict := "skipped"
		if r.requireAll {
			verdict = "BROKEN"
		}
		r.report(&m, verdict, "the test skips itself on this machine: "+m.command, "")
	case interrupted:
	default:
		r.report(&m, "BROKEN", "without the patch the test "+base.outcome.String()+": "+m.command, base.output)
	}
}

func (r *runner) mutate(ctx context.Context, m *mutant) {
	defer func() {
		if err := r.tree.reset(context.WithoutCancel(ctx)); err != nil {
			r.report(m, "BROKEN", err.Error(), "")
		}
	}()
	if err := r.tree.reset(ctx); err != nil {
		r.report(m, "BROKEN", err.Error(), "")
		return
	}
	if err := r.tree.apply(ctx, m.file); err != nil {
		r.report(m, "BROKEN", "the patch does not apply", err.Error())
		return
	}
	got, output := goTest(ctx, r.tree.dir, m.test, r.timeout)
	switch {
	case got == failed, got == hung && m.timeoutRed:
		r.report(m, "red", "", "")
	case got == passed:
		r.report(m, "SURVIVED", m.invariant+": "+m.removes+"; "+m.command, "")
	case got == interrupted:
	default:
		r.report(m, "BROKEN", "with the patch the test "+got.String()+": "+m.command, output)
	}
}

// report prints one line, and the end of the output below it.
func (r *runner) report(m *mutant, verdict, reason, output string) {
	r.counts[verdict]++
	line := fmt.Sprintf("%-8s  %s", verdict, m.name)
	if reason != "" {
		line += " (" + reason + ")"
	}
	r.printf("%s\n", line)
	const keep = 20
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, line := range lines[max(0, len(lines)-keep):] {
		if line != "" {
			r.printf("    %s\n", line)
		}
	}
}

func (o *options) printf(format string, args ...any) {
	fmt.Fprintf(o.out, format, args...)
}
