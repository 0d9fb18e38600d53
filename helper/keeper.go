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

	"remshell/helper/keeper"
	"remshell/helper/probe"
	"remshell/helper/scratch"
	"remshell/helper/stage"
	"remshell/helper/status"
	"remshell/job"
	"remshell/proc"
)

// Times of a keeper whose helper was killed: what is left has lost its job, and
// nobody waits for a long farewell.
const (
	keeperGrace    = time.Second
	keeperPatience = 10 * time.Second
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
func Keep(args []string) (int, error) {
	if err := proc.Adopt(); err != nil {
		return job.ExitInternal, fmt.Errorf("become a subreaper: %w", err)
	}
	signal.Ignore(unheard...)
	before := proc.Denied(probe.Disk(""))
	runtime.LockOSThread() // the parent-death signal comes with the end of this thread
	// Below os/exec, which first starts a process to try out what the kernel can.
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0]}, args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM},
	})
	if err != nil {
		return job.ExitInternal, fmt.Errorf("start the helper: %w", err)
	}
	letGoOfStreams()
	var ended unix.WaitStatus
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Wait4(pid, &ended, 0, nil)
	}
	return outlive(before, ended, err)
}

// unheard are the signals by which others would end a keeper. What is told to it is meant for the helper, which hears of it
// by the end of its input. The helper inherits that these are ignored, but catches them itself, or has
// Go do so, so that its ranks do not.
var unheard = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM}

// Outlive ends what a helper has left to its keeper, which is this process, and returns the exit code of the keeper. The
// arguments are what wait4(2) has told of the helper.
func Outlive(ended unix.WaitStatus, err error) (int, error) {
	before := proc.Denials{Group: -1, Machine: -1, Forks: -1}
	if c, noted := keeper.Noted(); noted {
		before.Group, before.Machine = int(c.Group), int(c.Machine)
	}
	return outlive(before, ended, err)
}

// outlive also gets what the kernel had denied here before the helper ran.
func outlive(before proc.Denials, ended unix.WaitStatus, err error) (int, error) {
	signal.Ignore(unheard...) // the entry did, and Go has taken that back for some of them
	if err == nil && ended.ExitStatus() == StayCode {
		return 0, nil
	}
	proc.End(keeperGrace, keeperPatience)
	if ended.ExitStatus() != 0 {
		sweep()
	}
	if why := before.OutOfMemory(probe.Disk("")); why != "" && ended.Signaled() && ended.Signal() == unix.SIGKILL {
		fmt.Fprintln(os.Stderr, why) // behind the rest: nobody may read it
	}
	if err != nil {
		return job.ExitInternal, fmt.Errorf("wait for the helper: %w", err)
	}
	return shellCode(ended), nil
}

// sweep takes away what a killed helper may have left: its socket, files of --stage, and of Open MPI.
func sweep() {
	stage.Sweep(os.Environ())
	scratch.Sweep(os.Environ())
	status.Sweep()
}

// letGoOfStreams puts /dev/null in the place of our standard input and output: their ends
// are the helper's to see and to close.
func letGoOfStreams() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range 2 {
		unix.Dup3(null, fd, 0)
	}
	unix.Close(null)
}

// shellCode is the exit code as a shell shows it.
func shellCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return job.Signal(status.Signal()).Status()
	}
	return status.ExitStatus()
}
