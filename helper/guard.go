//go:build linux

package helper

import (
	"fmt"
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
up its environment and its session escapes. What is left of the job still has its CPUs, so
the guard keeps the claim until it has ended that: it holds a descriptor of the claim's file.

Whoever kills mpiexec may kill its process group or its session (timeout -s KILL, a CI system, pkill -s). So
the guard leads a session, as each rank does; under PBS, which finds the processes of a job by
their session, it leads a process group only.

The guard starts guardDelay behind the first rank, so that a job that is over by then
does not pay for it, and is killed when the last has ended and left nothing. Until it is needed it is a
shell that waits, which starts in a third of the time of a Go program; at the end of the
pipe the shell becomes Guard, by a descriptor of our program, since its file may have
been replaced meanwhile.
*/
type guard struct {
	pid  int
	pipe int // write end; its close, by our death, wakes the guard
}

// guardDelay is the time in which a killed mpiexec may leave behind what a rank has
// already put into a session of its own.
const guardDelay = 2 * time.Millisecond

// sleeper waits for the end of its input and becomes the program behind descriptor 3.
const sleeper = `trap '' HUP INT TERM QUIT; read _ || exec /proc/self/fd/3 "$@" </dev/null`

// startGuard starts a guard; words are what Guard will be called by. It keeps a claim, if
// there is one, as long as it lives. Apart, it leads a session, as ranks do then.
func startGuard(words []string, held *ledger.Held, apart bool) (guard, error) {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return guard{}, err
	}
	defer program.Close()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return guard{}, err
	}
	defer unix.Close(fds[0])
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return guard{}, err
	}
	defer unix.Close(null)
	files := []uintptr{uintptr(fds[0]), uintptr(null), uintptr(null), program.Fd()}
	if held != nil {
		if claim, err := held.Dup(); err == nil { // else it was released meanwhile
			defer unix.Close(claim)
			files = append(files, uintptr(claim))
		}
	}
	argv := append([]string{"/bin/sh", "-c", sleeper, "mpiexec"}, words...)
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: stage.Environ(), Files: files,
		Sys: &syscall.SysProcAttr{Setsid: apart, Setpgid: !apart}})
	if err != nil {
		unix.Close(fds[1])
		return guard{}, err
	}
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

// newGuard starts the guard of a helper inside mpiexec, if there still is anything to
// guard.
func (s *session) newGuard() {
	if s.guard.pid != 0 || !s.life.MayLive() {
		return
	}
	g, err := startGuard(s.sys.Guard, s.held, s.apart)
	if err != nil {
		s.log.warn("no guard: if mpiexec is killed, ranks may survive it: %v", err)
	}
	s.guard, s.owners.guard = g, g.pid
}

// dismissGuard lets the guard go if it is the only process left, or the others may stay. It is a child of ours,
// and the job is over only when there is none.
func (s *session) dismissGuard() {
	if s.guard.pid == 0 || !s.life.MayStay() && slices.ContainsFunc(proc.Orphans(), s.ofJob) {
		return
	}
	s.staging.Unlink()
	s.guard.release()
}

// ofJob reports whether a child is part of the job.
func (s *session) ofJob(pid int) bool { return pid != s.owners.guard && !s.foreign.has(pid) }

// A guard tries for so long to kill what cannot die, and waits so long between two looks.
const (
	guardPatience = 10 * time.Second
	guardPause    = 20 * time.Millisecond
)

// Guard is the main function of a guard whose mpiexec is dead: it ends what is left of
// a job. The arguments are the job and its grace in milliseconds.
func Guard(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a guard takes a job and its grace, not %q", args)
	}
	grace, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("grace %q: %w", args[1], err)
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
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
