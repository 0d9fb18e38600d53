//go:build linux

package helper

import (
	"encoding/binary"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/ledger"
	"remshell/proc"
)

/*
A guard ends the job if mpiexec is killed. It exists for a helper inside mpiexec, for a job on this machine alone: such
a helper dies with mpiexec, even by SIGKILL. Its ranks then get SIGTERM, the parent-death signal. The guard ends the
processes that survive this, and children that called setsid:

	mpiexec with helper ---pipe---> guard
	    |        ranks: pid, end      '--- when the pipe ends: SIGTERM, grace, SIGKILL
	    '--- rank --- child                to all of the job

Process 1 inherits the orphans of a dead mpiexec, so the process tree no longer identifies them. Their environment does:
each job has an MPIEXEC_JOBID of its own. A process without this environment (env -i, a container) is found by the
session or the process group of its rank. A process that has also left its session and its group is not found. Leftover
processes still use the job's CPUs. So the guard keeps the claim, by a descriptor of the claim's file, until it has
ended them.

A user or program that kills mpiexec may also kill its process group, its session (timeout -s KILL, a CI system, pkill
-s) or every process of its name (pkill -f). So the guard leads a session, as each rank does, and is not called mpiexec.
Under PBS, which finds the processes of a job by their session, it only leads a process group.

The guard starts guardDelay after the first rank, so that it costs a shorter job nothing. The helper kills the guard
when no process of the job is left. The guard is this same program, which waits before Go's runtime starts (package
reaper).
*/
type guard struct {
	pid  int
	pipe int // write end; it is closed when mpiexec dies, which wakes the guard
}

// guardDelay is how long the first rank may run without a guard. An mpiexec that is killed in this time may
// leave processes behind. Without the delay, a job with one rank of /bin/true would take 5 % longer
// (doc/adr/0007).
const guardDelay = 2 * time.Millisecond

// guardRecheck is how often updateGuard checks whether processes that ranks left behind still exist.
const guardRecheck = 100 * time.Millisecond

// guardName is the guard's name in ps. It differs from mpiexec's name, so that pkill mpiexec does not kill the guard.
const guardName = "remshell"

// startGuard starts and returns a guard, the process that ends the job if mpiexec is killed. If ranks lead sessions,
// the guard leads one, too. The guard keeps the job's claim, heldClaim, valid as long as it lives. heldClaim may be
// nil.
func (s *Session) startGuard(heldClaim *ledger.HeldClaim) (guard, error) {
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
	if heldClaim != nil {
		if claim, err := heldClaim.DupFile(); err == nil { // if this fails, the claim was released meanwhile
			defer unix.Close(claim)
			files = append(files, uintptr(claim))
		}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{guardName}, s.sys.Guard...), &syscall.ProcAttr{
		Env: guardEnviron(), Files: files, Sys: &syscall.SysProcAttr{Setsid: s.leadSessions, Setpgid: !s.leadSessions},
	})
	if err != nil {
		unix.Close(fds[1])
		return guard{}, err
	}
	s.nonJob.addPID(pid)
	return guard{pid, fds[1]}, nil
}

// guardEnviron returns the environment variables by which a guard finds files that a helper has left behind.
func guardEnviron() (environ []string) {
	for _, name := range []string{"TMPDIR", "XDG_CACHE_HOME", "HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// kill kills the guard, if there is one.
func (g *guard) kill() {
	if g.pid != 0 {
		unix.Kill(g.pid, unix.SIGKILL)
		g.closePipe()
	}
}

// closePipe closes the pipe to a guard that has ended, and forgets its PID, which another process may have by now.
func (g *guard) closePipe() {
	unix.Close(g.pipe)
	*g = guard{}
}

// updateGuard starts the guard if processes of the job exist, and kills it if there are none. The guard is a
// process that cleans up if mpiexec is killed. It is a child of the helper, and the job ends only when the
// helper has no children. A helper that has a reaper needs no guard.
func (s *Session) updateGuard() {
	switch {
	case s.sys.Guard == nil:
	case s.Lifecycle.RankMayLive():
		s.ensureGuard()
	case s.Lifecycle.Busy() && s.hasOrphans():
		s.ensureGuard()
		s.updateGuardAfter(guardRecheck) // only its parent notices the end of such a process
	default:
		for _, ends := range s.Hooks.GuardEnds {
			ends()
		}
		s.guard.kill()
	}
}

// updateGuardAfter calls updateGuard on the session's goroutine after a delay. If it is called again before then, the
// new delay replaces the old one.
func (s *Session) updateGuardAfter(delay time.Duration) {
	if s.guardTimer == nil {
		s.guardTimer = time.AfterFunc(delay, func() { s.PostEvent(guardCheckDue{}) })
		return
	}
	s.guardTimer.Reset(delay)
}

// hasOrphans reports whether processes that ranks left behind still exist.
func (s *Session) hasOrphans() bool {
	return slices.ContainsFunc(proc.Orphans(), func(pid int) bool { return !s.nonJob.hasPID(pid) })
}

// EnsureGuard starts the guard of a helper that runs inside mpiexec, unless it already runs. A feature calls it before
// it creates files that the guard must remove if mpiexec is killed (Feature.RemoveLeftFiles). In a helper with a reaper
// it does nothing, because the reaper removes such files.
func (s *Session) EnsureGuard() {
	if s.sys.Guard != nil {
		s.ensureGuard()
	}
}

// ensureGuard starts a guard if there is none, and sends it the running ranks. It logs a warning if that fails.
func (s *Session) ensureGuard() {
	if s.guard.pid != 0 {
		return
	}
	var err error
	if s.guard, err = s.startGuard(s.heldClaim); err != nil {
		s.log.warn("cannot start the process that ends the ranks if mpiexec is killed: %v", err)
	}
	s.guard.sendRanks(s.runningRanks()...)
}

// A rankRecord says that a rank is running, or when it ended. It is sent to the guard through a pipe.
type rankRecord struct {
	PID   uint32
	Ended uint64 // as proc.StartTicks; 0: it runs
}

// rankRecordSize is the size of a record in the guard's pipe, in bytes. The kernel writes recordsPerWrite records at
// once (PIPE_BUF of pipe(7)), so no record is split.
const (
	rankRecordSize  = 12
	recordsPerWrite = 4096 / rankRecordSize
)

// sendRanks writes records about ranks to the guard's pipe. The guard reads them only when mpiexec has died.
// sendRanks returns false if the pipe is full.
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

// reportToGuard sends a record to the guard. If the pipe is full, it starts a new guard instead, which
// receives records of the running ranks only.
func (s *Session) reportToGuard(record rankRecord) {
	if !s.guard.sendRanks(record) {
		old := s.guard
		s.guard = guard{}
		s.ensureGuard()
		old.kill()
	}
}

// runningRanks returns a record of each running rank.
func (s *Session) runningRanks() (list []rankRecord) {
	for pid := range s.RankByPID() {
		list = append(list, rankRecord{PID: uint32(pid)})
	}
	return list
}
