//go:build linux

package helper

import (
	"encoding/binary"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/stage"
	"remshell/ledger"
	"remshell/proc"
)

/*
A helper inside mpiexec, for a job on this machine alone, dies with it, also by
SIGKILL. Its ranks then get SIGTERM, the parent-death signal; what lives on, and their
children that called setsid, the guard ends:

	mpiexec with helper ---pipe---> guard
	    |        ranks: pid, end      '--- when the pipe ends: SIGTERM, grace, SIGKILL
	    '--- rank --- child                to all of the job

Orphans of a dead mpiexec fall to process 1, so the tree does not tell them any more,
but their environment does: MPIEXEC_JOBID is the job's alone. What has given up its environment (env -i, a
container) is found by the session or the process group of its rank. A process that has given up both escapes. What is left of the job still has its CPUs, so
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

// guardAgain is how often a look is taken at what ranks have left.
const guardAgain = 100 * time.Millisecond

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
	unix.SetNonblock(fds[1], true)
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
		s.mindGuardIn(guardAgain) // the end of a child may be told to nobody but who has started it
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
	s.guard.tell(s.living()...)
}

// An ofRank tells the guard of a rank: that it runs, or when it has ended.
type ofRank struct {
	PID   uint32
	Ended uint64 // a proc.Birth; 0: it runs
}

// ofRankSize is that of one in the pipe, and atOnce how many the kernel writes as one (PIPE_BUF of pipe(7)): there is no
// part of one.
const (
	ofRankSize = 12
	atOnce     = 4096 / ofRankSize
)

// tell writes to the pipe, which the guard reads when it has ended; false: it is full.
func (g *guard) tell(ranks ...ofRank) bool {
	if g.pid == 0 {
		return true
	}
	for some := range slices.Chunk(ranks, atOnce) {
		text, _ := binary.Append(nil, binary.NativeEndian, some)
		if _, err := unix.Write(g.pipe, text); err != nil {
			return false
		}
	}
	return true
}

// tellGuard tells the guard of a rank. One whose pipe is full is replaced by one that is told of those that live.
func (s *session) tellGuard(of ofRank) {
	if !s.guard.tell(of) {
		old := s.guard
		s.guard = guard{}
		s.newGuard()
		old.release()
	}
}

// living are the ranks that run.
func (s *session) living() (list []ofRank) {
	for pid := range s.roots() {
		list = append(list, ofRank{PID: uint32(pid)})
	}
	return list
}
