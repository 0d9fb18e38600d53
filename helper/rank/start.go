//go:build linux

/*
Package rank starts one process of a parallel program: bound to its CPUs and memory, with its
streams, limits and environment. It knows of no job and of no other process.

	Locate, Enterable     what is to run, and where
	AppEnv, Identity      what it is told
	Starter, Binder       the thread that forks it, and takes on its CPUs and memory for that
	SoftLimits            the launcher's limits, for the moment of the fork
	Confinement           the limits of the job, before its program runs
	SlackOf               how late timers may be of ranks that share CPUs
	Command.Start    -->  Process: its number and our ends of its streams
	Reader                what it writes, up to its last word
	Peaks                 how much memory it had
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

// A Command is what one process is started from.
type Command struct {
	Path     string // of the program
	Argv     []string
	Env      []string // of its app; its identity is added
	Identity Identity // but for its PMI descriptor and the CPUs that it gets, which Start knows
	Dir      string

	CPUs    []int // to which it is to be bound; nil: to those that we have
	Mems    []int // NUMA nodes to which its memory is to be bound
	MemMode pin.MemMode

	Stdin       bool         // it has a standard input; else that is /dev/null
	MergeStderr bool         // stderr goes where stdout goes
	Terminal    bool         // its streams are a terminal of a session of its own
	WindowSize  unix.Winsize // of the terminal
	NoPMI       bool         // it comes to its PMI server by a port, and has no descriptor for that

	KernelLimits KernelLimits  // what the kernel enforces
	TimerSlack   time.Duration // of its timers; 0: as we have it

	LeadSession bool           // lead a session of its own, and so lose our terminal, or only a group
	DeathSignal syscall.Signal // comes when the thread ends that forks it
}

// A Process is what came of a start.
type Process struct {
	PID         int
	MemoryFloor int64 // what the kernel may count as its memory, and was ours, in bytes
	Pipes       Pipes // our ends
	CPUs, Mems  []int // to which the kernel has bound it; nil: it has what we have
}

// Start forks and execs on the thread of a starter, to which the binder belongs too.
func (c *Command) Start(b *Binder, limits []ForkLimit) (Process, *Error) {
	cpus, err := b.bindCPUs(c.CPUs)
	if err != nil {
		return Process{}, bindError(c.CPUs, err)
	}
	p, err := c.openStreams()
	if err != nil {
		return Process{}, &Error{job.ExitInternal, "no descriptors for its streams: " + err.Error(), "see ulimit -n there"}
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

// bindError is the failure of a rank that would not have its CPUs for itself: to go on
// would share cores (placement.md 7.7).
func bindError(cpus []int, err error) *Error {
	hint := "see that they are online and in the CPU set there, or use --no-pin"
	if isDenied(err) {
		hint = "sched_setaffinity is denied there, as by the seccomp filter of a container: allow it, or ask for no binding"
	}
	return &Error{job.ExitInternal, fmt.Sprintf("cannot be bound to CPUs %s: %v", idset.Text(cpus), err), hint}
}

// openStreams opens the streams and the PMI connection.
func (c *Command) openStreams() (Pipes, error) {
	if !c.Terminal {
		return openPipes(c.Stdin, c.MergeStderr)
	}
	return openWith(func(p *Pipes) error { return p.openTerminal(c.Stdin, c.WindowSize) })
}

// forkExec forks and execs, on the calling thread, with these descriptors for stdin, stdout, stderr
// and PMI. The process leads a session, or at least a process group, of its own (SIG-6) and
// hears when we die. It uses the system call below os/exec, which would open a pidfd and start
// goroutines for each process.
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
		// A script without "#!" is run by the shell, as execvp(3) does.
		argv := append([]string{"/bin/sh", c.Path}, c.Argv[1:]...)
		pid, err = syscall.ForkExec("/bin/sh", argv, attr)
	}
	return pid, err
}

// isText guesses, as shells do, that a file without a zero byte in its first
// line is a script and not a program for another machine.
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
