//go:build linux

package helper

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/helper/reaper"
	"remshell/helper/sessiondir"
	"remshell/helper/stage"
	"remshell/helper/status"
	"remshell/job"
	"remshell/proc"
)

// Times of a keeper whose helper was killed: what is left has lost its job, and
// nobody waits for a long farewell.
const (
	reaperGrace   = time.Second
	reaperTimeout = 10 * time.Second
)

/*
Keep runs the helper as a child and outlives it.

	sshd --- sh, then keeper (subreaper) --- helper (subreaper) --- ranks --- ...
	                     '<------- orphans of a killed helper ------------'

Killed with SIGKILL, a helper can end nothing; its ranks die by the parent-death
signal, but their children that called setsid would live on. They fall to the
keeper, which ends them. Should the keeper be killed instead, the helper gets
SIGTERM and ends its job. The keeper holds none of the helper's streams but stderr, on
which it says why the helper was killed, if it knows.

The arguments are those of the helper's own command line. Keep returns its exit
code.
*/
func RunReaper(args []string) (int, error) {
	if err := proc.BecomeSubreaper(); err != nil {
		return job.ExitInternal, fmt.Errorf("become a subreaper: %w", err)
	}
	signal.Ignore(ignoredSignals...)
	before := proc.CountDenials(probe.RootFS(""))
	runtime.LockOSThread() // the parent-death signal comes with the end of this thread
	// Below os/exec, which first starts a process to try out what the kernel can.
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0]}, args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM},
	})
	if err != nil {
		return job.ExitInternal, fmt.Errorf("start the helper: %w", err)
	}
	releaseStdio()
	var ended unix.WaitStatus
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Wait4(pid, &ended, 0, nil)
	}
	return cleanUpAfterHelper(before, ended, err)
}

// ignoredSignals are the signals by which others would end a keeper. What is told to it is meant for the helper, which hears of it
// by the end of its input. The helper inherits that these are ignored, but catches them itself, or has
// Go do so, so that its ranks do not.
var ignoredSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM}

// CleanUpAfterHelper ends what a helper has left to its keeper, which is this process, and returns the exit code of the keeper. The
// arguments are what wait4(2) has told of the helper.
func CleanUpAfterHelper(ended unix.WaitStatus, err error) (int, error) {
	before := proc.Denials{CgroupKills: -1, MachineKills: -1, Forks: -1}
	if c, noted := reaper.NotedCounts(); noted {
		before.CgroupKills, before.MachineKills = int(c.Group), int(c.Machine)
	}
	return cleanUpAfterHelper(before, ended, err)
}

// cleanUpAfterHelper also gets what the kernel had denied here before the helper ran.
func cleanUpAfterHelper(before proc.Denials, ended unix.WaitStatus, err error) (int, error) {
	signal.Ignore(ignoredSignals...) // the entry did, and Go has taken that back for some of them
	if err == nil && ended.ExitStatus() == LeaveProcessesCode {
		return 0, nil
	}
	proc.EndDescendants(reaperGrace, reaperTimeout)
	if ended.ExitStatus() != 0 {
		removeLeftFiles()
	}
	if why := before.OutOfMemory(probe.RootFS("")); why != "" && ended.Signaled() && ended.Signal() == unix.SIGKILL {
		fmt.Fprintln(os.Stderr, why) // behind the rest: nobody may read it
	}
	if err != nil {
		return job.ExitInternal, fmt.Errorf("wait for the helper: %w", err)
	}
	return shellExitCode(ended), nil
}

// removeLeftFiles takes away what a killed helper may have left: its socket, files of --stage, and of Open MPI.
func removeLeftFiles() {
	stage.RemoveLeftFolders(os.Environ())
	sessiondir.RemoveLeftDirs(os.Environ())
	status.RemoveLeftSockets()
}

// releaseStdio puts /dev/null in the place of our standard input and output: their ends
// are the helper's to see and to close.
func releaseStdio() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range 2 {
		unix.Dup3(null, fd, 0)
	}
	unix.Close(null)
}

// shellExitCode is the exit code as a shell shows it.
func shellExitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return job.Signal(status.Signal()).Status()
	}
	return status.ExitStatus()
}
