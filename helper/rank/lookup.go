//go:build linux

package rank

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"remshell/job"

	"golang.org/x/sys/unix"
)

// An Error says why a program cannot run on this node.
type Error struct {
	Code   int // exit code of cli.md EXIT-5
	Reason string
	Hint   string
}

func (e *Error) Error() string { return e.Reason }

// InternalError returns an Error whose exit code is job.ExitInternal.
func InternalError(reason, hint string) *Error { return &Error{job.ExitInternal, reason, hint} }

// CheckWorkingDir returns an error if dir cannot be a rank's working directory, or nil.
func CheckWorkingDir(dir string) *Error {
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
	return &Error{job.ExitNotFound, fmt.Sprintf("working directory %s: %v", dir, WithoutPath(err)),
		"choose another working directory with -wdir"}
}

// SearchPath returns the PATH in an environment. If there is none, it returns the default PATH.
func SearchPath(environ []string) string {
	if path, defined := job.LookupEnv(environ, "PATH"); defined {
		return path
	}
	return job.DefaultPath
}

// FindProgram returns the path of a program. A name with a slash is relative to dir. Any other name is searched for in
// three lists of directories, in this order: before (-path), path (PATH) and after (rule ARG-2).
func FindProgram(program, dir string, before []string, path string, after ...string) (string, *Error) {
	if strings.Contains(program, "/") {
		file := program
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		refused := checkRunnable(file, program)
		if refused != nil && refused.Hint == "" {
			refused.Hint = blankHint(program)
		}
		return file, refused
	}
	var denied *Error
	for _, folder := range slices.Concat(before, filepath.SplitList(path), after) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, program)
		err := checkRunnable(file, file)
		if err == nil {
			return file, nil
		}
		// A folder without search permission, or one with the program's name, is ignored. A file without execute
		// permission is reported if no other file is found.
		if info, missing := os.Stat(file); missing == nil && !info.IsDir() && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	where := "PATH"
	if len(before) > 0 {
		where = strings.Join(before, ":") + " and in PATH"
	}
	if len(after) > 0 {
		where += " and in " + strings.Join(after, ":")
	}
	missing := &Error{job.ExitNotFound, fmt.Sprintf("program %s: not found in %s", program, where), ""}
	local := filepath.Join(dir, program)
	if info, err := os.Stat(local); checkRunnable(local, "") == nil {
		missing.Hint = "did you mean ./" + program + "?"
	} else if err == nil && info.Mode().IsRegular() {
		missing.Hint = sourceHint(program)
	} else {
		missing.Hint = blankHint(program)
	}
	return "", missing
}

// blankHint returns a hint if program looks like a whole command line in quotes. Otherwise it returns "".
func blankHint(program string) string {
	if strings.Contains(program, " ") {
		return "the program name has a blank; do not put quotes around a program together with its arguments"
	}
	return ""
}

// compilers maps extensions of source files to the compiler commands of MPI libraries.
var compilers = map[string]string{".c": "mpicc", ".cc": "mpicxx", ".cpp": "mpicxx", ".cxx": "mpicxx", ".C": "mpicxx",
	".f": "mpifort", ".F": "mpifort", ".for": "mpifort", ".f90": "mpifort", ".F90": "mpifort", ".f95": "mpifort", ".f03": "mpifort", ".f08": "mpifort"}

// sourceHint returns a hint if a file is source code, and "" otherwise.
func sourceHint(program string) string {
	kind := filepath.Ext(program)
	switch {
	case compilers[kind] != "":
		return fmt.Sprintf("this file is source code; compile it first: %s -o %s %s", compilers[kind], strings.TrimSuffix(program, kind), program)
	case kind == ".py":
		return "start the script by its interpreter: python3 " + program
	}
	return ""
}

// checkRunnable returns an error if file cannot be executed, and nil otherwise. name is the file's name for
// the error.
func checkRunnable(file, name string) *Error {
	info, err := os.Stat(file)
	if err != nil {
		code := job.ExitNotFound
		if errors.Is(err, syscall.EACCES) {
			code = job.ExitCannotRun
		}
		return &Error{code, fmt.Sprintf("program %s: %v", name, WithoutPath(err)), ""}
	}
	if info.IsDir() {
		return &Error{job.ExitCannotRun, fmt.Sprintf("program %s is a directory", name), ""}
	}
	var in unix.Statfs_t
	if unix.Access(file, unix.X_OK) != nil {
		if info.Mode().Perm()&0o111 != 0 && unix.Statfs(file, &in) == nil && in.Flags&unix.ST_NOEXEC != 0 {
			return &Error{job.ExitCannotRun, fmt.Sprintf("program %s cannot run: its file system is mounted noexec", name),
				"put the program on another file system, or let mpiexec copy it: --stage " + name}
		}
		return &Error{job.ExitCannotRun, fmt.Sprintf("program %s: permission denied", name),
			cmp.Or(sourceHint(name), "make the program executable: chmod +x "+name)}
	}
	return nil
}

// execError returns an error that explains why the fork or exec of file has failed. path is the name that the
// user has given.
func execError(err error, file, path string, argv, env []string) *Error {
	failed := &Error{job.ExitCannotRun, fmt.Sprintf("program %s: %v", path, WithoutPath(err)), ""}
	switch {
	case errors.Is(err, syscall.ENOENT):
		failed.Reason = fmt.Sprintf("program %s: its interpreter or loader is missing", path)
		failed.Hint = "if the program is a script, check its first line; otherwise look at the output of: file " + path
	case errors.Is(err, syscall.ENOEXEC):
		failed.Reason = fmt.Sprintf("program %s: not a program for this machine (exec format error)", path)
		if machine := otherArch(file); machine != "" {
			failed.Hint = fmt.Sprintf("the program is built for %s, but this host is %s", machine, runtime.GOARCH)
		}
	case errors.Is(err, syscall.E2BIG):
		failed.Reason = fmt.Sprintf("program %s: its arguments and environment are too long (%d bytes)", path, bytesOf(argv)+bytesOf(env))
		failed.Hint = "make some environment variables shorter; the longest are " + strings.Join(largestVariables(env, 3), ", ")
	case errors.Is(err, syscall.EAGAIN):
		failed.Reason = fmt.Sprintf("program %s: the host does not allow more processes", path)
		failed.Hint = "check ulimit -u on that host"
	}
	return failed
}

func bytesOf(texts []string) int {
	sum := 0
	for _, t := range texts {
		sum += len(t) + 1
	}
	return sum
}

// largestVariables returns the names and sizes, in bytes, of the n largest variables in env. It does not
// return their values, which may be secret.
func largestVariables(env []string, n int) []string {
	sorted := slices.Clone(env)
	slices.SortStableFunc(sorted, func(a, b string) int { return len(b) - len(a) })
	var names []string
	for _, assignment := range sorted[:min(n, len(sorted))] {
		name, _, _ := strings.Cut(assignment, "=")
		names = append(names, fmt.Sprintf("%s (%d bytes)", name, len(assignment)))
	}
	return names
}

// WithoutPath returns the error without its path if err is an *fs.PathError, and otherwise err itself. It is
// used in messages that already name the path.
func WithoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
