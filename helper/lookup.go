//go:build linux

package helper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A startError says why a program cannot run on this node.
type startError struct {
	code   int // exit code of cli.md EXIT-5: 126 or 127
	reason string
	hint   string
}

func (e *startError) Error() string { return e.reason }

// Exit codes of env(1), timeout(1) and the shells.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// enterable checks a working directory.
func enterable(dir string) *startError {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		err = unix.Access(dir, unix.X_OK)
	}
	if err == nil {
		return nil
	}
	return &startError{exitNotFound, fmt.Sprintf("working directory %s: %v", dir, bareErr(err)),
		"choose another one with -wdir"}
}

// locate finds the program on this node: as given if there is a slash in it,
// relative to dir, else in the folders of -path and then of PATH (ARG-2).
func locate(program, dir string, first []string, path string) (string, *startError) {
	if strings.Contains(program, "/") {
		file := program
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return file, runnable(file, program)
	}
	var denied *startError
	for _, folder := range append(slices.Clone(first), filepath.SplitList(path)...) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, program)
		err := runnable(file, file)
		if err == nil {
			return file, nil
		}
		// A folder that may not be searched, or one of the program's name, says
		// nothing about the program; a file without execute permission does.
		if info, missing := os.Stat(file); missing == nil && !info.IsDir() && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	where := "PATH"
	if len(first) > 0 {
		where = strings.Join(first, ":") + " and in PATH"
	}
	missing := &startError{exitNotFound, fmt.Sprintf("program %s: not found in %s", program, where), ""}
	if runnable(filepath.Join(dir, program), "") == nil {
		missing.hint = "did you mean ./" + program + "?"
	}
	return "", missing
}

// runnable checks a file; the message calls it by the name given.
func runnable(file, name string) *startError {
	info, err := os.Stat(file)
	if err != nil {
		code := exitNotFound
		if errors.Is(err, syscall.EACCES) {
			code = exitCannotRun
		}
		return &startError{code, fmt.Sprintf("program %s: %v", name, bareErr(err)), ""}
	}
	if info.IsDir() {
		return &startError{exitCannotRun, fmt.Sprintf("program %s: is a directory", name), ""}
	}
	if unix.Access(file, unix.X_OK) != nil {
		return &startError{exitCannotRun, fmt.Sprintf("program %s: permission denied", name),
			"make it executable: chmod +x " + name}
	}
	return nil
}

// execFailed explains a failed fork or exec of file, which the user calls path.
func execFailed(err error, file, path string, argv, env []string) *startError {
	failed := &startError{exitCannotRun, fmt.Sprintf("program %s: %v", path, bareErr(err)), ""}
	switch {
	case errors.Is(err, syscall.ENOENT):
		failed.reason = fmt.Sprintf("program %s: its interpreter or loader is missing", path)
		failed.hint = "look at its first line, or at: file " + path
	case errors.Is(err, syscall.ENOEXEC):
		failed.reason = fmt.Sprintf("program %s: not a program for this machine (exec format error)", path)
		if machine := foreign(file); machine != "" {
			failed.hint = fmt.Sprintf("it is for %s, this node is %s", machine, runtime.GOARCH)
		}
	case errors.Is(err, syscall.E2BIG):
		failed.reason = fmt.Sprintf("program %s: arguments and environment are too long (%d bytes)", path, size(argv)+size(env))
		failed.hint = "the largest variables are " + strings.Join(largest(env, 3), ", ")
	case errors.Is(err, syscall.EAGAIN):
		failed.reason = fmt.Sprintf("program %s: the node allows no more processes", path)
		failed.hint = "see ulimit -u there"
	}
	return failed
}

func size(texts []string) int {
	sum := 0
	for _, t := range texts {
		sum += len(t) + 1
	}
	return sum
}

// largest names the n longest variables with their sizes, never their values.
func largest(env []string, n int) []string {
	sorted := slices.Clone(env)
	slices.SortStableFunc(sorted, func(a, b string) int { return len(b) - len(a) })
	var names []string
	for _, assignment := range sorted[:min(n, len(sorted))] {
		name, _, _ := strings.Cut(assignment, "=")
		names = append(names, fmt.Sprintf("%s (%d bytes)", name, len(assignment)))
	}
	return names
}

// bareErr strips the path that os puts before the reason, as ours names it.
func bareErr(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
