//go:build linux

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Environ returns the environment for a command on the head. It is the environment of this process, with the head's
// HOME and without SSH_ variables. With these variables, an SSH client would use the keys of the user who runs this
// process. Assignments in overrides take precedence. Unless the kind is Namespaces, MPIEXEC_LEDGER is the state
// directory, so that the cluster has its own ledger.
func (f *Cluster) Environ(overrides ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SSH_") })
	if f.Kind == Namespaces {
		env = replaceAssignments(env, "HOME="+HomeDir())
	} else {
		// Without the variable, the ssh configuration would be the user's own, whatever HOME is.
		env = replaceAssignments(env, "HOME="+f.Home, "MPIEXEC_SSH_CONFIG="+filepath.Join(f.Home, ".ssh", "config"), "PATH="+f.path("bin")+":"+os.Getenv("PATH"), "MPIEXEC_LEDGER="+f.State)
	}
	return replaceAssignments(env, overrides...)
}

// replaceAssignments returns env with the new assignments of variables. It removes earlier assignments of these
// variables, since most programs would use the first of two assignments.
func replaceAssignments(env []string, assignments ...string) []string {
	for _, assignment := range assignments {
		name, _, _ := strings.Cut(assignment, "=")
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		env = append(env, assignment)
	}
	return env
}

// SSH returns the name or path of the head's ssh command, for programs that do not look for
// ssh in the PATH, such as Hydra.
func (f *Cluster) SSH() string {
	if f.Kind == Namespaces {
		return "ssh"
	}
	return f.path("bin", "ssh")
}

// Command returns a command to run on the head, in the working directory of this process. Its environment is
// Environ(env...). In a cluster of kind Namespaces, nsenter(1) starts the command, which takes one or two milliseconds.
// nsenter then replaces itself with the command, so the process ID is the command's own. In such a cluster, the
// result's field Dir has no effect.
func (f *Cluster) Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	if f.Kind == Namespaces {
		wd, _ := os.Getwd()
		enter := []string{"--target", strconv.Itoa(f.HeadPID), "--mount", "--net", "--uts", "--wdns=" + wd, "--", name}
		cmd = exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	} else if !strings.Contains(name, "/") {
		// The head's own ssh comes first in the PATH of the command, and only there.
		if path := f.path("bin", name); isFile(path) {
			cmd = exec.CommandContext(ctx, path, args...)
		}
	}
	cmd.Env = f.Environ(env...)
	return cmd
}

// isFile reports whether name is a regular file.
func isFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// Enter calls fn on a thread that is in the head's namespaces, and returns when fn returns. Processes that fn starts
// run on the head; fn must start them with the environment that Environ returns. Files that fn opens are those of the
// head. Other goroutines, such as those that the standard library starts in net.Dial, do not run on the head. In a
// cluster of another kind than Namespaces, Enter only calls fn. Enter returns an error if fn ends its goroutine, as
// t.Fatal does.
func (f *Cluster) Enter(fn func()) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if f.Kind == Namespaces && unix.Gettid() == unix.Getpid() {
			// The main thread never ends, and /proc/self shows its namespaces. While this goroutine
			// is locked to it, the goroutine below gets another thread.
			done <- f.Enter(fn)
			runtime.UnlockOSThread()
			return
		}
		err := errors.New("testbed: the function did not return")
		defer func() { done <- err }() // also if fn ends the goroutine, as t.Fatal does
		// The thread is never unlocked, so it ends with the goroutine and is not reused.
		if f.Kind == Namespaces {
			if err = f.setns(); err != nil {
				return
			}
		}
		err = errors.New("testbed: the function did not return")
		fn()
		err = nil
	}()
	return <-done
}

// setns moves the calling thread to the head's namespaces.
func (f *Cluster) setns() error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(f.HeadPID, 0)
	if err != nil {
		return fmt.Errorf("test cluster %s: head: %w", f.Name, err)
	}
	defer unix.Close(fd)
	// A thread that shares its working directory with others cannot change the mount
	// namespace (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("setns: %w", err)
	}
	return unix.Chdir(wd)
}

// On returns a command to run on a host or on the head, without ssh. In a cluster of kind Namespaces, the command runs
// as root in the host's home directory. Killing it ends only nsenter(1), not the program that nsenter has started in
// the host. In other clusters, the command runs on this machine as the current user. Its environment then contains the
// host's HOME and mark (markName).
func (f *Cluster) On(ctx context.Context, host, name string, args ...string) *exec.Cmd {
	if host == Head {
		return f.Command(ctx, nil, name, args...)
	}
	h, err := f.Host(host)
	if err != nil {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Err = err
		return cmd
	}
	if f.Kind != Namespaces {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = replaceAssignments(os.Environ(), "HOME="+f.path("hosts", host, "home"), markName+"="+f.markOf(host))
		return cmd
	}
	enter := []string{"--target", strconv.Itoa(h.Init),
		"--mount", "--net", "--uts", "--ipc", "--pid", "--wdns=" + HomeDir(), "--", name}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"HOME=" + HomeDir(), "USER=root", "LOGNAME=root", "SHELL=/bin/sh",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// Root returns the path of the root directory of a host, or of the head, as this process sees it.
func (f *Cluster) Root(host string) string {
	if f.Kind != Namespaces {
		return "/"
	}
	if host == Head {
		return fmt.Sprintf("/proc/%d/root", f.HeadPID)
	}
	h, err := f.Host(host)
	if err != nil {
		return "/nonexistent"
	}
	return fmt.Sprintf("/proc/%d/root", h.Init)
}
