//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// worktree is a temporary checkout that patches may change.
type worktree struct {
	repo string // top directory of the repository it belongs to
	temp string
	dir  string
}

// newWorktree checks a snapshot of the repository around dir out into a temporary directory. The snapshot is a commit
// without a branch, made through an index of its own, so neither the tree nor the index nor a branch of the user changes.
func newWorktree(ctx context.Context, dir string, head bool) (*worktree, error) {
	repo, err := git(ctx, dir, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "snowshed-mutants-")
	if err != nil {
		return nil, err
	}
	w := &worktree{repo: repo, temp: temp, dir: filepath.Join(temp, "tree")}
	commit := "HEAD"
	if !head {
		commit, err = snapshot(ctx, repo, filepath.Join(temp, "index"))
	}
	if err == nil {
		_, err = git(ctx, repo, nil, "worktree", "add", "--quiet", "--detach", w.dir, commit)
	}
	if err != nil {
		return nil, errors.Join(err, w.remove(ctx))
	}
	return w, nil
}

func snapshot(ctx context.Context, repo, index string) (string, error) {
	env := []string{
		"GIT_INDEX_FILE=" + index,
		"GIT_AUTHOR_NAME=mutants", "GIT_AUTHOR_EMAIL=mutants@localhost",
		"GIT_COMMITTER_NAME=mutants", "GIT_COMMITTER_EMAIL=mutants@localhost",
	}
	if _, err := git(ctx, repo, env, "add", "--all", "."); err != nil {
		return "", err
	}
	tree, err := git(ctx, repo, env, "write-tree")
	if err != nil {
		return "", err
	}
	return git(ctx, repo, env, "commit-tree", "-m", "snapshot for mutants", tree)
}

func (w *worktree) apply(ctx context.Context, patch string) error {
	_, err := git(ctx, w.dir, nil, "apply", patch)
	return err
}

// reset brings the snapshot back, whatever patches and tests left behind.
func (w *worktree) reset(ctx context.Context) error {
	if _, err := git(ctx, w.dir, nil, "reset", "--quiet", "--hard"); err != nil {
		return err
	}
	_, err := git(ctx, w.dir, nil, "clean", "--quiet", "-ffdx")
	return err
}

// remove works after an interrupt too.
func (w *worktree) remove(ctx context.Context) error {
	err := os.RemoveAll(w.temp)
	_, pruneErr := git(context.WithoutCancel(ctx), w.repo, nil, "worktree", "prune")
	return errors.Join(err, pruneErr)
}

// git runs without the hooks and the repository variables of the caller.
func git(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.hooksPath=/dev/null"}, args...)...)
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); name != "GIT_DIR" && name != "GIT_WORK_TREE" && name != "GIT_INDEX_FILE" {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	output, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, text)
	}
	return text, nil
}
