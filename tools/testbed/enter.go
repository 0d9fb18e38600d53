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

// Environ is the environment of a command on the head: ours, without what would lead an
// SSH client to keys of the machine, with the head's home and what is given, which wins.
// Hosts that are this machine have a ledger of their own all the same: the state folder.
func (f *Cluster) Environ(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SSH_") })
	if f.Kind == Namespaces {
		env = replaceAssignments(env, "HOME="+HomeDir())
	} else {
		// The configuration of ssh would be that of the account, whatever HOME says.
		env = replaceAssignments(env, "HOME="+f.Home, "MPIEXEC_SSH_CONFIG="+filepath.Join(f.Home, ".ssh", "config"), "PATH="+f.path("bin")+":"+os.Getenv("PATH"), "MPIEXEC_LEDGER="+f.State)
	}
	return replaceAssignments(env, more...)
}

// replaceAssignments puts assignments in the place of others to the same variables: of two the first
// counts for most programs.
func replaceAssignments(env []string, assignments ...string) []string {
	for _, assignment := range assignments {
		name, _, _ := strings.Cut(assignment, "=")
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		env = append(env, assignment)
	}
	return env
}

// SSH is the ssh command of the head, for programs that look for it elsewhere than in
// the PATH, as Hydra does.
func (f *Cluster) SSH() string {
	if f.Kind == Namespaces {
		return "ssh"
	}
	return f.path("bin", "ssh")
}

// Command prepares a command on the head, in the working directory of this process.
// Its environment is Environ(env...). Entering costs the start of nsenter(1), a
// millisecond or two. Its process id is the command's own; cmd.Dir has no effect.
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

func isFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// Enter calls fn on a thread that is on the head, and returns when fn does. Processes
// that fn starts itself, not in another goroutine, run on the head at no further cost;
// give them Environ. Other kinds only have the environment. Files that fn opens are the head's too. What the standard library
// does in other goroutines, as net.Dial, is not on the head.
func (f *Cluster) Enter(fn func()) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if f.Kind == Namespaces && unix.Gettid() == unix.Getpid() {
			// The main thread never ends, and what it sees is what /proc/self shows. While
			// it is ours, the goroutine below gets another one.
			done <- f.Enter(fn)
			runtime.UnlockOSThread()
			return
		}
		err := errors.New("field: the function did not return")
		defer func() { done <- err }() // also if fn ends the goroutine, as t.Fatal does
		// From here on never unlocked: the thread ends with the goroutine, nobody else
		// gets it.
		if f.Kind == Namespaces {
			if err = f.setns(); err != nil {
				return
			}
		}
		err = errors.New("field: the function did not return")
		fn()
		err = nil
	}()
	return <-done
}

// setns moves the calling thread to the head.
func (f *Cluster) setns() error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(f.HeadPID, 0)
	if err != nil {
		return fmt.Errorf("field %s: head: %w", f.Name, err)
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

// On prepares a command inside a host, in its home, as root and not through ssh. With
// the other kinds it runs on this machine as the current user, with the host's $HOME
// and mark. Killing the command's process does not reach into a host's PID namespace.
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

// Root is the root of a host's file system, or the head's, as seen from outside.
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
