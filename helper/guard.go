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

// guardRecheck is how often a look is taken at what ranks have left.
const guardRecheck = 100 * time.Millisecond

// guardName is what a guard is called for ps, and for whoever kills all that is called mpiexec.
const guardName = "remshell"

// startGuard starts a guard, in a session of its own if ranks have one. It keeps a claim, if there is one, as long as it
// lives.
func (s *session) startGuard(held *ledger.HeldClaim) (guard, error) {
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
		if claim, err := held.DupFile(); err == nil { // else it was released meanwhile
			defer unix.Close(claim)
			files = append(files, uintptr(claim))
		}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{guardName}, s.sys.Guard...), &syscall.ProcAttr{
		Env: stage.GuardEnviron(), Files: files, Sys: &syscall.SysProcAttr{Setsid: s.leadSessions, Setpgid: !s.leadSessions},
	})
	if err != nil {
		unix.Close(fds[1])
		return guard{}, err
	}
	s.nonJob.addPID(pid)
	return guard{pid, fds[1]}, nil
}

// kill ends the guard: there is nothing left to guard.
func (g *guard) kill() {
	if g.pid != 0 {
		unix.Kill(g.pid, unix.SIGKILL)
		g.closePipe()
	}
}

// closePipe lets go of a guard that has ended. Its number may be that of another process then.
func (g *guard) closePipe() {
	unix.Close(g.pipe)
	*g = guard{}
}

// updateGuard starts the guard of a helper inside mpiexec if something of the job lives, and lets it go if nothing does: it
// is a child of ours, and the job is over only when there is none.
func (s *session) updateGuard() {
	switch {
	case s.sys.Guard == nil:
	case s.life.RankMayLive():
		s.ensureGuard()
	case s.life.Busy() && s.hasOrphans():
		s.ensureGuard()
		s.updateGuardAfter(guardRecheck) // the end of a child may be told to nobody but who has started it
	default:
		s.staging.Unlink()
		s.guard.kill()
	}
}

// updateGuardAfter has it looked after in a while.
func (s *session) updateGuardAfter(while time.Duration) {
	if s.guardTimer == nil {
		s.guardTimer = time.AfterFunc(while, func() { s.postEvent(guardCheckDue{}) })
		return
	}
	s.guardTimer.Reset(while)
}

// hasOrphans reports whether ranks have left processes.
func (s *session) hasOrphans() bool {
	return slices.ContainsFunc(proc.Orphans(), func(pid int) bool { return !s.nonJob.hasPID(pid) })
}

// ensureGuard starts a guard if there is none.
func (s *session) ensureGuard() {
	if s.guard.pid != 0 {
		return
	}
	var err error
	if s.guard, err = s.startGuard(s.heldClaim); err != nil {
		s.log.warn("no guard: if mpiexec is killed, ranks may survive it: %v", err)
	}
	s.guard.sendRanks(s.runningRanks()...)
}

// A rankRecord tells the guard of a rank: that it runs, or when it has ended.
type rankRecord struct {
	PID   uint32
	Ended uint64 // a proc.StartTicks; 0: it runs
}

// rankRecordSize is that of one in the pipe, and atOnce how many the kernel writes as one (PIPE_BUF of pipe(7)): there is no
// part of one.
const (
	rankRecordSize  = 12
	recordsPerWrite = 4096 / rankRecordSize
)

// sendRanks writes to the pipe, which the guard reads when it has ended; false: it is full.
func (g *guard) sendRanks(ranks ...rankRecord) bool {
	if g.pid == 0 {
		return true
	}
	for some := range slices.Chunk(ranks, recordsPerWrite) {
		text, _ := binary.Append(nil, binary.NativeEndian, some)
		if _, err := unix.Write(g.pipe, text); err != nil {
			return false
		}
	}
	return true
}

// reportToGuard tells the guard of a rank. One whose pipe is full is replaced by one that is told of those that live.
func (s *session) reportToGuard(of rankRecord) {
	if !s.guard.sendRanks(of) {
		old := s.guard
		s.guard = guard{}
		s.ensureGuard()
		old.kill()
	}
}

// runningRanks are the ranks that run.
func (s *session) runningRanks() (list []rankRecord) {
	for pid := range s.rankByPID() {
		list = append(list, rankRecord{PID: uint32(pid)})
	}
	return list
}
