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
	"remshell/job"
	"remshell/proc"
)

// reaperGrace is the time between SIGTERM and SIGKILL when a reaper ends the processes of a killed helper.
// After reaperTimeout the reaper gives up. Both are short, since the job is lost.
const (
	reaperGrace   = time.Second
	reaperTimeout = 10 * time.Second
)

/*
RunReaper runs the helper as a child, outlives it, and ends the processes that the helper leaves.

	sshd --- sh, then reaper (subreaper) --- helper (subreaper) --- ranks --- ...
	                     '<------- orphans of a killed helper ------------'

A helper that is killed with SIGKILL cannot end its ranks. They die by the parent-death signal, but their children that
called setsid live on. The reaper inherits these and ends them. If the reaper is killed instead, the helper gets SIGTERM
and ends its job. The reaper keeps none of the helper's streams open except stderr. There it prints why the helper was
killed, if it knows.

args are the arguments of the helper's own command line. RunReaper returns the helper's exit code as a shell shows
it. The error says why the helper could not be started or waited for.
*/
func RunReaper(args []string) (int, error) {
	if err := proc.BecomeSubreaper(); err != nil {
		return job.ExitInternal, fmt.Errorf("become a subreaper: %w", err)
	}
	signal.Ignore(ignoredSignals...)
	before := proc.CountDenials(probe.RootFS(""))
	runtime.LockOSThread() // the helper gets its parent-death signal when this thread ends
	// Not os/exec: it first starts a process to find out what the kernel supports.
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0]}, args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM},
	})
	if err != nil {
		return job.ExitInternal, fmt.Errorf("cannot start the helper process of mpiexec: %w", err)
	}
	_ = os.WriteFile("/proc/self/comm", []byte(reaper.Name), 0) // without the name it works, too
	releaseStdio()
	var ended unix.WaitStatus
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Wait4(pid, &ended, 0, nil)
	}
	return cleanUpAfterHelper(before, ended, err)
}

// ignoredSignals are signals that a reaper ignores, since they are meant for the helper. The helper inherits this
// setting from the reaper. It handles or resets these signals, so that its ranks do not ignore them.
var ignoredSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM}

// CleanUpAfterHelper ends the processes that a helper has left to this process, its reaper. It returns the
// exit code for this process. The arguments are the results of wait4(2) for the helper.
func CleanUpAfterHelper(ended unix.WaitStatus, err error) (int, error) {
	before := proc.Denials{CgroupKills: -1, MachineKills: -1, Forks: -1}
	if c, noted := reaper.NotedCounts(); noted {
		before.CgroupKills, before.MachineKills = int(c.Group), int(c.Machine)
	}
	return cleanUpAfterHelper(before, ended, err)
}

// cleanUpAfterHelper ends the processes that a helper has left behind, as CleanUpAfterHelper describes. before contains
// what the kernel had denied, such as memory, when this was last counted.
func cleanUpAfterHelper(before proc.Denials, ended unix.WaitStatus, err error) (int, error) {
	signal.Ignore(ignoredSignals...) // the entry ignored them, but Go's runtime has reset some
	if err == nil && ended.ExitStatus() == LeaveProcessesCode {
		return 0, nil
	}
	proc.EndDescendants(reaperGrace, reaperTimeout)
	if ended.ExitStatus() != 0 {
		removeLeftFiles("")
	}
	if why := before.OutOfMemory(probe.RootFS("")); why != "" && ended.Signaled() && ended.Signal() == unix.SIGKILL {
		fmt.Fprintln(os.Stderr, why) // last, since a write to stderr may block
	}
	if err != nil {
		return job.ExitInternal, fmt.Errorf("cannot wait for the helper process of mpiexec: %w", err)
	}
	return shellExitCode(ended), nil
}

// removeLeftFiles removes files that a killed helper may have left: those of Open MPI and of features. killed
// is the ID of that helper's job, or "" if it is unknown.
func removeLeftFiles(killed job.ID) {
	for _, f := range features {
		if f.RemoveLeftFiles != nil {
			f.RemoveLeftFiles(os.Environ(), killed)
		}
	}
	sessiondir.RemoveLeftDirs(os.Environ())
}

// releaseStdio replaces this process's standard input and output with /dev/null, so that only the helper holds these
// streams.
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

// shellExitCode returns the exit code that a shell would report for a process. If a signal killed the
// process, this is 128 plus the signal.
func shellExitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return job.Signal(status.Signal()).Status()
	}
	return status.ExitStatus()
}
