//go:build linux

package helper

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/stage"
	"remshell/helper/status"
	"remshell/job"
	"remshell/ledger"
	"remshell/proc"
)

/*
A helper inside mpiexec, for a job on this machine alone, dies with it, also by
SIGKILL. Its ranks then get SIGTERM, the parent-death signal; what lives on, and their
children that called setsid, the guard ends:

	mpiexec with helper ---pipe---> guard
	    |                             '--- when the pipe ends: SIGTERM, grace, SIGKILL
	    '--- rank --- child                to all that carry the mark of the job

Orphans of a dead mpiexec fall to process 1, so the tree does not tell them any more,
but their environment does: MPIEXEC_JOBID is the job's alone. A process that has given
up its environment escapes. What is left of the job still has its CPUs, so
the guard keeps the claim until it has ended that: it holds a descriptor of the claim's file.

Whoever kills mpiexec may kill its process group, its session (timeout -s KILL, a CI system, pkill -s) or all that has its
name (pkill -f). So the guard leads a session, as each rank does, and is not called mpiexec; under PBS, which finds
the processes of a job by their session, it leads a process group only.

The guard starts guardDelay behind the first rank, so that a job that is over by then does not pay for it, and is killed when
the last has ended and left nothing. It is this program, which waits before Go's runtime begins (package keeper).
*/
type guard struct {
	pid  int
	pipe int // write end; its close, by our death, wakes the guard
}

// guardDelay is the time in which a killed mpiexec may leave behind what a rank has already left or put into a session of
// its own. Without it, one rank of /bin/true takes a twentieth longer (adr 7).
const guardDelay = 2 * time.Millisecond

// guardName is what a guard is called for ps, and for whoever kills all that is called mpiexec.
const guardName = "remshell"

// startGuard starts a guard, in a session of its own if ranks have one. It keeps a claim, if there is one, as long as it
// lives.
func (s *session) startGuard(held *ledger.Held) (guard, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return guard{}, err
	}
	defer unix.Close(fds[0])
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(fds[1])
		return guard{}, err
	}
	defer unix.Close(null)
	files := []uintptr{uintptr(fds[0]), uintptr(null), uintptr(null)}
	if held != nil {
		if claim, err := held.Dup(); err == nil { // else it was released meanwhile
			defer unix.Close(claim)
			files = append(files, uintptr(claim))
		}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{guardName}, s.sys.Guard...), &syscall.ProcAttr{
		Env: stage.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setsid: s.apart, Setpgid: !s.apart},
	})
	if err != nil {
		unix.Close(fds[1])
		return guard{}, err
	}
	s.foreign.add(pid)
	return guard{pid, fds[1]}, nil
}

// release ends the guard: there is nothing left to guard.
func (g *guard) release() {
	if g.pid != 0 {
		unix.Kill(g.pid, unix.SIGKILL)
		g.forget()
	}
}

// forget lets go of a guard that has ended. Its number may be that of another process then.
func (g *guard) forget() {
	unix.Close(g.pipe)
	*g = guard{}
}

// mindGuard starts the guard of a helper inside mpiexec if something of the job lives, and lets it go if nothing does: it
// is a child of ours, and the job is over only when there is none.
func (s *session) mindGuard() {
	switch {
	case s.sys.Guard == nil:
	case s.life.MayLive():
		s.newGuard()
	case s.life.Busy() && s.orphaned():
		s.newGuard()
		s.mindGuardIn(guardPause) // the end of a child may be told to nobody but who has started it
	default:
		s.staging.Unlink()
		s.guard.release()
	}
}

// mindGuardIn has it looked after in a while.
func (s *session) mindGuardIn(while time.Duration) {
	if s.minding == nil {
		s.minding = time.AfterFunc(while, func() { s.tell(guardDue{}) })
		return
	}
	s.minding.Reset(while)
}

// orphaned reports whether ranks have left processes.
func (s *session) orphaned() bool {
	return slices.ContainsFunc(proc.Orphans(), func(pid int) bool { return !s.foreign.has(pid) })
}

// newGuard starts a guard if there is none.
func (s *session) newGuard() {
	if s.guard.pid != 0 {
		return
	}
	var err error
	if s.guard, err = s.startGuard(s.held); err != nil {
		s.log.warn("no guard: if mpiexec is killed, ranks may survive it: %v", err)
	}
}

// A guard tries for so long to kill what cannot die, and waits so long between two looks.
const (
	guardPatience = 10 * time.Second
	guardPause    = 20 * time.Millisecond
)

// Guard is the main function of a guard. When mpiexec is dead, which is when the input ends, it ends what is left of
// a job. The arguments are the job and its grace in milliseconds.
func Guard(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a guard takes a job and its grace, not %q", args)
	}
	grace, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("grace %q: %w", args[1], err)
	}
	signal.Ignore(unheard...)
	io.Copy(io.Discard, os.Stdin) // it has ended already, but in a program without our entry
	defer func() {
		sweep()
		status.Forget(job.ID(args[0])) // its mpiexec may not have ended whole yet
	}()
	mark := "MPIEXEC_JOBID=" + args[0]
	if signalMarked(mark, unix.SIGTERM) == 0 {
		return nil
	}
	signalMarked(mark, unix.SIGCONT) // a stopped process takes no SIGTERM
	deadline := time.Now().Add(time.Duration(grace) * time.Millisecond)
	for time.Now().Before(deadline) && len(proc.Marked(mark)) > 0 {
		time.Sleep(guardPause)
	}
	deadline = time.Now().Add(guardPatience)
	for time.Now().Before(deadline) && signalMarked(mark, unix.SIGKILL) > 0 {
		time.Sleep(guardPause)
	}
	return nil
}

// signalMarked signals every process with the mark and returns how many there are.
func signalMarked(mark string, sig unix.Signal) int {
	pids := proc.Marked(mark)
	for _, pid := range pids {
		unix.Kill(pid, sig)
	}
	return len(pids)
}
