//go:build linux

package helper

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/lifecycle"
	"remshell/proc"
	"remshell/wire"
)

const (
	// outputTimeout is how long the end of a rank waits for somebody to take the rest
	// of its output (IO-10).
	outputTimeout = 2 * time.Second

	// slowReaderAfter is after how long mpiexec hears that only its reader is waited for.
	slowReaderAfter = time.Second
)

// startEnding lets no rank come up any more, and none be led to a happy end (pmi-wire.md 6.3).
func (s *session) startEnding() {
	if !s.stopForking.Swap(true) {
		close(s.jobEnding)
	}
	for _, r := range s.ranks {
		r.noteBarrier()
	}
	for _, g := range s.groups {
		g.pmi.Freeze()
	}
	if s.pmix != nil {
		s.pmix.server.Freeze()
	}
}

// terminateAll sends SIGTERM to all that is left. A rank that is about to end by itself was not asked to.
func (s *session) terminateAll() {
	s.orphans.noteOrphanGroups(s.life.IsRank)
	s.ipcTracker.Scan(s.jobProcesses)
	for _, r := range s.ranks {
		r.dying = r.alive() && proc.IsExiting(r.child.PID)
		r.noteBarrier()
	}
	if !s.alreadySignaled(unix.SIGTERM) {
		s.signalAll(unix.SIGTERM)
	}
	s.signalAll(unix.SIGCONT) // a stopped process takes no SIGTERM
}

// signalAll sends a signal to all that is left of the job, which the guard is no part of; but for ranks and what they
// have in their process groups, if the rest may stay.
func (s *session) signalAll(sig unix.Signal) {
	if s.life.LeavesProcesses() {
		s.signalGroups(sig)
		return
	}
	for _, p := range proc.Descendants(os.Getpid()) {
		if p.PID != s.guard.pid {
			unix.Kill(p.PID, sig)
		}
	}
}

// awaitPipesClosed waits until the pipes of all ranks have ended: nobody is left who could
// write, but what a leftover child last wrote may still be in them. If the job is being
// ended, and nobody takes it, that is given up after lastWords; else mpiexec is told that
// no process is left.
func (s *session) awaitPipesClosed(noise int) {
	var open []*outputStream
	for _, r := range s.ranks {
		if r.stdout != nil {
			open = append(open, r.stdout, r.stderr)
		}
	}
	stay := s.life.LeavesProcesses()
	go func() {
		slow := time.NewTimer(slowReaderAfter)
		defer slow.Stop()
		var late <-chan time.Time
		hurry := s.jobEnding
		if stay {
			late = time.After(outputTimeout) // those who stay may keep their pipes for ever
		}
		for i := 0; i < len(open); {
			select {
			case <-open[i].ended:
				i++
			case <-hurry:
				late, hurry = time.After(outputTimeout), nil
			case <-slow.C:
				s.postEvent(lifecycle.PipesSlow{Round: noise})
			case <-late:
				i = len(open)
			}
		}
		s.postEvent(lifecycle.PipesClosed{Round: noise})
	}()
}

// reportDrained tells mpiexec that nothing of the job is left here. What it claims goes first, so that
// the next job finds the CPUs free; or it stays, for the next attempt. A group that is prepared meanwhile waits for
// it: mpiexec lets it go when it is told that the group is, and must not hear then that nothing is left.
func (s *session) reportDrained() {
	drained := &wire.Drained{Orphans: s.orphans.ofJob(s.byRank)}
	left := s.takeLeftIPC()
	s.claims.Drain(s.prepare.Claim.KeepUntilBye, func() {
		s.pmixClosing.Wait()
		if m := left.freeObjects(); m != nil {
			s.conn.Send(m)
		}
		drained.KeptSessions = s.keptDirs.takeDirs()
	}, func() { s.conn.Send(drained) })
}

// A helperSignals is which signals this helper got from others than mpiexec. Slurm sends them to all processes of its step here, also to
// the ranks, as systemd does to those of a session that it stops. Grid Engine sends them to the process group of its task, in which we are
// and no rank is.
//
//	scancel, the time limit --> slurmstepd ---- TERM ----> keeper, which ignores it
//	                                 |--------- TERM ----> helper --- Caught ---> mpiexec
//	                                 '--------- TERM ----> ranks              <--- End ---
type helperSignals struct {
	reaperPID   int                       // a keeper; we get SIGTERM as well when it dies
	receivedAt  map[unix.Signal]time.Time // when signals came that mpiexec may yet pass on
	endReported bool                      // mpiexec was told
}

func newHelperSignals() helperSignals {
	return helperSignals{reaperPID: os.Getppid(), receivedAt: make(map[unix.Signal]time.Time)}
}

// duplicateSignalTime is how long after a signal that the ranks had from the batch system the same one of
// mpiexec's is taken for that.
const duplicateSignalTime = 5 * time.Second

// endNotOrdered says that mpiexec has had time to order the end of the ranks.
type endNotOrdered struct{ grace time.Duration }

// handleSignal takes a signal to this helper. One to end means the ranks, which may have got it as well: mpiexec is told, and the ranks are
// ended as it orders, or without it after half of their grace, so that it receives what they print and consume (RM-60). Without ranks, or if
// it comes since our keeper was killed, the job ends as if mpiexec were gone.
func (s *session) handleSignal(sig os.Signal) {
	number, _ := sig.(unix.Signal)
	ours := s.prepare != nil && len(s.byRank) > 0 && os.Getppid() == s.reaperPID
	held := ours && s.prepare.Supervision.BatchStarted
	if held && s.prepare.Supervision.BatchSignalsRanks {
		s.receivedAt[number] = time.Now()
	}
	switch {
	case number == unix.SIGXCPU && !held: // the soft limit of this helper alone, which may go on
	case number != unix.SIGTERM && number != unix.SIGINT && number != unix.SIGHUP && number != unix.SIGXCPU:
	case ours && !s.endReported:
		s.endReported = true
		half := s.prepare.Supervision.Grace / 2
		time.AfterFunc(half, func() { s.postEvent(endNotOrdered{half}) })
		if why := s.kernelDenials.OutOfMemory(s.sys.Root); why != "" || held {
			s.conn.Send(&wire.HelperSignaled{Signal: int(number), Why: why})
			return
		}
		s.claims.EvictedBy(s.prepare.Job, func(user string) {
			s.conn.Send(&wire.HelperSignaled{Signal: int(number), Why: evictionText(user)})
		})
	case !ours:
		s.claims.EvictedBy("", func(string) { s.postEvent(endedBySignal{number}) })
	}
}

// endedBySignal says that a signal is to end a helper that has no ranks.
type endedBySignal struct{ number unix.Signal }

// evictionText is why a helper is to end, if a user evicts its job.
func evictionText(user string) string {
	if user == "" {
		return ""
	}
	return "evicted by " + user + " with --evict"
}

// alreadySignaled reports whether the ranks had a signal from the batch system already, and forgets it, but
// for SIGTERM: nobody needs to be told twice to end. What stops them is always passed on, and so
// is what lets them go on after that.
func (s *session) alreadySignaled(number unix.Signal) bool {
	at, came := s.receivedAt[number]
	switch number {
	case unix.SIGTERM: // that of a keeper's death came to us alone
		return came && os.Getppid() == s.reaperPID
	case unix.SIGSTOP:
		delete(s.receivedAt, unix.SIGCONT)
		return false
	}
	delete(s.receivedAt, number)
	return came && time.Since(at) < duplicateSignalTime
}
