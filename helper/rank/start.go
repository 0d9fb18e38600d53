//go:build linux

/*
Package rank starts one process of a parallel program with its CPUs, memory, streams, limits and
environment. The package knows nothing about the job and other processes.

	FindProgram, CheckWorkingDir   the program and its directory
	AppEnv, Identity               its environment
	ForkThread, Binder             the thread that forks it, with its CPUs and memory policy
	SoftLimits                     mpiexec's soft limits, set while it is forked
	KernelLimits                   the job's limits, set before the program runs
	TimerSlackFor                  timer slack for ranks that share CPUs
	Command.Start    -->  Process: its PID and the helper's ends of its streams
	PipeReader                     reads its output, up to its exit
	PeakWatcher                    its largest memory
*/
package rank

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// A Command describes a process to start.
type Command struct {
	Path     string // of the program
	Argv     []string
	Env      []string // environment of its app; Start adds the identity
	Identity Identity // without PMIFD and CPUs, which Start sets
	Dir      string

	CPUs    []int // CPUs to bind it to; nil: the helper's CPUs
	Mems    []int // NUMA nodes to bind its memory to
	MemMode pin.MemMode

	Stdin       bool         // it has a standard input; otherwise that is /dev/null
	MergeStderr bool         // stderr goes to the same pipe as stdout
	Terminal    bool         // its streams are a pseudo-terminal in a session of its own
	WindowSize  unix.Winsize // size of the terminal
	NoPMI       bool         // it has no PMI descriptor

	KernelLimits KernelLimits  // limits that the kernel enforces
	TimerSlack   time.Duration // timer slack; 0: the helper's

	LeadSession bool           // start it in a session of its own, without our terminal; otherwise only in a process group of its own
	DeathSignal syscall.Signal // sent when the thread that forks it ends
}

// A Process is a process that Start has started.
type Process struct {
	PID         int
	MemoryFloor int64 // bytes; a peak up to this size may be the helper's memory
	Pipes       Pipes // our ends of its streams
	CPUs, Mems  []int // as bound by the kernel; nil: not bound
}

// Start forks a process and executes the command. It must run on the ForkThread for which b was made. The error says
// why the process could not be started.
func (c *Command) Start(b *Binder, limits []ForkLimit) (Process, *Error) {
	cpus, err := b.bindCPUs(c.CPUs)
	if err != nil {
		return Process{}, bindError(c.CPUs, err)
	}
	p, err := c.openStreams()
	if err != nil {
		return Process{}, &Error{job.ExitInternal, "cannot open the standard input and output of the rank: " + err.Error(), "check ulimit -n on that host"}
	}
	identity := c.Identity
	identity.CPUs = cpus
	if identity.PMIFD = 3; c.NoPMI {
		identity.PMIFD = 0
		p.closePMI()
	}
	env := identity.rankEnv(c.Env)
	mems := b.bindMemory(c.Mems, c.MemMode)
	var pid int
	withForkLimits(limits, func() {
		withTimerSlack(c.TimerSlack, func() { pid, err = c.forkExec(env, p.theirs) })
	})
	b.releaseMemory()
	p.close(p.theirs[:])
	if err != nil {
		p.Close()
		return Process{}, execError(err, c.Path, c.Argv[0], c.Argv, env)
	}
	if failed := c.KernelLimits.applyTo(pid); failed != nil {
		p.Close()
		return Process{}, failed
	}
	return Process{pid, ownPeak(), p, cpus, mems}, nil
}

// bindError returns the error for a rank that cannot be bound to its CPUs. Such a rank is not started,
// because it would share cores with other ranks or jobs (placement.md 7.7).
func bindError(cpus []int, err error) *Error {
	hint := "check that these CPUs are online and in the CPU set of mpiexec on that host, or use --no-pin"
	if isDenied(err) {
		hint = "allow the system call sched_setaffinity on that host (a container may have a seccomp filter), or leave out the binding options"
	}
	return &Error{job.ExitInternal, fmt.Sprintf("cannot bind the rank to CPUs %s: %v", idset.Text(cpus), err), hint}
}

// openStreams opens the pipes or the terminal of a process, and its PMI connection.
func (c *Command) openStreams() (Pipes, error) {
	if !c.Terminal {
		return openPipes(c.Stdin, c.MergeStderr)
	}
	return openWith(func(p *Pipes) error { return p.openTerminal(c.Stdin, c.WindowSize) })
}

// forkExec forks on the calling thread, and executes the command. files are the descriptors for stdin, stdout, stderr
// and PMI. The process leads a session or a process group of its own (rule SIG-6), and receives DeathSignal when this
// thread ends. Package os/exec is not used, because it opens a pidfd and starts goroutines for each process.
func (c *Command) forkExec(env []string, files [4]int) (pid int, err error) {
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: env, Sys: &syscall.SysProcAttr{
		Setpgid:   !c.LeadSession && !c.Terminal,
		Setsid:    c.LeadSession || c.Terminal,
		Setctty:   c.Terminal,
		Pdeathsig: c.DeathSignal,
		Ptrace:    len(c.KernelLimits) > 0,
	}}
	for _, fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, err = syscall.ForkExec(c.Path, c.Argv, attr)
	if errors.Is(err, syscall.ENOEXEC) && isText(c.Path) {
		// As execvp(3) does, run a script without "#!" by the shell.
		argv := append([]string{"/bin/sh", c.Path}, c.Argv[1:]...)
		pid, err = syscall.ForkExec("/bin/sh", argv, attr)
	}
	return pid, err
}

// isText reports whether a file is a script without a "#!" line. As in shells, a file is a script if its
// first line contains no zero byte.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	head, _, _ = bytes.Cut(head[:n], []byte("\n"))
	return n > 0 && bytes.IndexByte(head, 0) < 0
}
