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
	// outputTimeout is how long mpiexec may take to accept the rest of a rank's output after the rank has
	// ended (rule IO-10).
	outputTimeout = 2 * time.Second

	// slowReaderAfter is how long the pipes of ranks may stay open after the last process has ended. After
	// that time, the helper reports to mpiexec that it is waiting only for output to be read.
	slowReaderAfter = time.Second
)

// startEnding prevents the start of further ranks, and keeps running ranks from completing a barrier or fence
// (pmi-wire.md 6.3).
func (s *Session) startEnding() {
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

// terminateAll sends SIGTERM to all processes of the job, unless the batch system has already done so. It first notes
// which ranks are already exiting, so that their end is not taken for an effect of SIGTERM.
func (s *Session) terminateAll() {
	s.orphans.noteOrphanGroups(s.Lifecycle.IsRank)
	for _, terminating := range s.Hooks.Terminating {
		terminating()
	}
	for _, r := range s.ranks {
		r.dying = r.alive() && proc.IsExiting(r.Child.PID)
		r.noteBarrier()
	}
	if !s.alreadySignaled(unix.SIGTERM) {
		s.signalAll(unix.SIGTERM)
	}
	s.signalAll(unix.SIGCONT) // a stopped process does not handle SIGTERM
}

// signalAll sends a signal to all processes of the job, but not to the guard. If processes that ranks left behind may
// keep running, it signals only the process groups of the ranks.
func (s *Session) signalAll(sig unix.Signal) {
	if s.Lifecycle.LeavesProcesses() {
		s.signalGroups(sig)
		return
	}
	for _, p := range proc.Descendants(os.Getpid()) {
		if p.PID != s.guard.pid {
			unix.Kill(p.PID, sig)
		}
	}
}

// awaitPipesClosed waits, in the background, until the pipes of all ranks are closed. The processes have already
// ended, but a pipe may still hold output. After slowReaderAfter it posts PipesSlow. If the job is being ended, or
// processes may keep running, it gives up after outputTimeout. At the end it posts PipesClosed. Both events contain
// round, which identifies this wait.
func (s *Session) awaitPipesClosed(round int) {
	var open []*outputStream
	for _, r := range s.ranks {
		if r.stdout != nil {
			open = append(open, r.stdout, r.stderr)
		}
	}
	stay := s.Lifecycle.LeavesProcesses()
	go func() {
		slow := time.NewTimer(slowReaderAfter)
		defer slow.Stop()
		var late <-chan time.Time
		hurry := s.jobEnding
		if stay {
			late = time.After(outputTimeout) // processes that stay may keep their pipes open for ever
		}
		for i := 0; i < len(open); {
			select {
			case <-open[i].ended:
				i++
			case <-hurry:
				late, hurry = time.After(outputTimeout), nil
			case <-slow.C:
				s.PostEvent(lifecycle.PipesSlow{Round: round})
			case <-late:
				i = len(open)
			}
		}
		s.PostEvent(lifecycle.PipesClosed{Round: round})
	}()
}

// reportDrained reports to mpiexec that no process and no output of the job is left on this node. Before that, features
// complete their work (Hooks.Drained), and the claims are released so that the next job finds the CPUs free. If another
// attempt (one run of all ranks) may follow, the claims are kept.
func (s *Session) reportDrained() {
	drained := &wire.Drained{Orphans: s.orphans.ofJob(s.byRank)}
	var finish []func()
	for _, isDrained := range s.Hooks.Drained {
		finish = append(finish, isDrained())
	}
	s.claims.Drain(s.Prepare.Claim.KeepUntilBye, func() {
		s.pmixClosing.Wait()
		for _, f := range finish {
			f()
		}
		drained.KeptSessions = s.keptDirs.takeDirs()
	}, func() { s.conn.Send(drained) })
}

// A helperSignals records the signals that somebody other than mpiexec sent to this helper. Slurm sends
// signals to all processes of its step on this node, including the ranks, and systemd does the same in a
// session that it stops. Grid Engine sends signals to the process group of its task, which contains the
// helper but no rank.
//
//	scancel, the time limit --> slurmstepd ---- TERM ----> reaper, which ignores it
//	                                 |--------- TERM ----> helper --- HelperSignaled ---> mpiexec
//	                                 '--------- TERM ----> ranks              <------- EndJob -------
type helperSignals struct {
	reaperPID   int                       // the helper's parent; the helper also gets SIGTERM when it dies
	receivedAt  map[unix.Signal]time.Time // when the ranks got each signal; mpiexec may still pass it on
	endReported bool                      // HelperSignaled was sent
}

func newHelperSignals() helperSignals {
	return helperSignals{reaperPID: os.Getppid(), receivedAt: make(map[unix.Signal]time.Time)}
}

// duplicateSignalTime is the time within which two equal signals are treated as one. If a batch system has signaled the
// ranks and mpiexec sends the same signal within this time, the helper does not signal the ranks again. For SIGTERM
// there is no such limit.
const duplicateSignalTime = 5 * time.Second

// halfGraceOver is posted half a grace period after a signal has asked this helper to end. By then, mpiexec should have
// ended the job. grace is the other half, which is left for the ranks.
type halfGraceOver struct{ grace time.Duration }

// handleOwnSignal handles a signal that the helper's own process has received. (Signals that mpiexec passes on
// to ranks are wire.Signal messages.) The helper reports a signal that ends processes, so that mpiexec ends the
// job. If mpiexec does not, the helper ends the ranks after half of their grace period, so that mpiexec still
// receives their output and usage (rule RM-60). Without ranks, or after the reaper was killed, the helper ends
// the job as if mpiexec were gone.
func (s *Session) handleOwnSignal(sig os.Signal) {
	number, _ := sig.(unix.Signal)
	ours := s.Prepare != nil && len(s.byRank) > 0 && os.Getppid() == s.reaperPID
	held := ours && s.Prepare.Supervision.BatchStarted
	if held && s.Prepare.Supervision.BatchSignalsRanks {
		s.receivedAt[number] = time.Now()
	}
	switch {
	case number == unix.SIGXCPU && !held: // the soft limit of this helper alone; it may go on
	case number != unix.SIGTERM && number != unix.SIGINT && number != unix.SIGHUP && number != unix.SIGXCPU:
	case ours && !s.endReported:
		s.endReported = true
		half := s.Prepare.Supervision.Grace / 2
		time.AfterFunc(half, func() { s.PostEvent(halfGraceOver{half}) })
		if why := s.kernelDenials.OutOfMemory(s.sys.Root); why != "" || held {
			s.conn.Send(&wire.HelperSignaled{Signal: int(number), Why: why})
			return
		}
		s.claims.EvictedBy(s.Prepare.Job, func(user string) {
			s.conn.Send(&wire.HelperSignaled{Signal: int(number), Why: evictionText(user)})
		})
	case !ours:
		s.claims.EvictedBy("", func(string) { s.PostEvent(endedBySignal{number}) })
	}
}

// endedBySignal is posted when a signal ends a helper that has no ranks, or whose reaper is dead.
type endedBySignal struct{ number unix.Signal }

// evictionText returns the reason why the helper ends if user has evicted its job. It returns "" if user is empty.
func evictionText(user string) string {
	if user == "" {
		return ""
	}
	return "user " + user + " ended the job with mpiexec --evict"
}

// alreadySignaled reports whether the batch system has already sent this signal to the ranks. For SIGTERM it returns
// true every time. For another signal it returns true only once, so that a second one is passed on. SIGSTOP is always
// passed on, and so is the next SIGCONT.
func (s *Session) alreadySignaled(number unix.Signal) bool {
	at, came := s.receivedAt[number]
	switch number {
	case unix.SIGTERM: // the SIGTERM for a dead reaper went only to this helper
		return came && os.Getppid() == s.reaperPID
	case unix.SIGSTOP:
		delete(s.receivedAt, unix.SIGCONT)
		return false
	}
	delete(s.receivedAt, number)
	return came && time.Since(at) < duplicateSignalTime
}
