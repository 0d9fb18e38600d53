package supervise

import (
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/text"
)

// forwarded are the signals that mpiexec forwards to ranks by default (rule SIG-4). Batch systems send
// SIGXCPU when the job's time is almost over. SIGURG is forwarded only if the user names it, because Go's
// runtime sends it to mpiexec itself.
var forwarded = []int{int(job.SIGQUIT), int(job.SIGUSR1), int(job.SIGUSR2), int(job.SIGALRM),
	int(job.SIGCONT), int(job.SIGWINCH), int(job.SIGXCPU)}

func (r Policy) forwardedSignals() []int {
	if r.SignalPolicy.Forward == nil {
		return forwarded
	}
	return r.SignalPolicy.Forward
}

// handleSignal handles a signal that mpiexec received (rules SIG-1 to SIG-5).
func (s *State) handleSignal(number job.Signal, now time.Time) []Action {
	switch number {
	case job.SIGINT:
		return s.handleInterrupt(now)
	case job.SIGTERM, job.SIGHUP:
		s.signals++
		s.blameSignal(number, now)
		if number == job.SIGTERM {
			s.blameBatch(now)
		}
		if s.signals > 1 {
			return s.endRanks(now, Killing, 0)
		}
		running := s.Phase == Running
		actions := s.endRanks(now, Ending, s.policy.Grace)
		if number == job.SIGTERM && running && s.Cause.Kind == BySignal { // after SIGHUP there may be no terminal to read it
			actions = append(actions, ReportLine{fmt.Sprintf("SIGTERM: ending %s on %s", text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"))})
		}
		return actions
	case job.SIGTSTP:
		return []Action{StopLauncher{}}
	}
	switch {
	case s.IsSuspended() && number == job.SIGCONT: // the ranks run when no reason to hold them is left
	case slices.Contains(s.policy.forwardedSignals(), int(number)):
		return []Action{SignalAllRanks{number}}
	}
	return nil // for example SIGPIPE: a write to a closed pipe returns an error as well
}

// handleInterrupt handles ^C. The first ^C is sent to the ranks. The second makes mpiexec end the ranks, and
// the third ends mpiexec at once.
func (s *State) handleInterrupt(now time.Time) []Action {
	s.signals++
	if s.signals == 1 && s.Phase != Running {
		s.signals++ // the job is already ending: the next ^C ends mpiexec
	}
	s.blameSignal(job.SIGINT, now)
	switch {
	case s.signals == 1 && s.Phase == Running:
		s.Phase = Interrupted
		s.pending.dropSuspicions()
		text := fmt.Sprintf("^C: mpiexec sent SIGINT to %s on %s; press ^C again to end them",
			text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"))
		return []Action{SignalAllRanks{job.SIGINT}, ReportLine{text}}
	case s.signals <= 2:
		return append(s.endRanks(now, Ending, secondInterruptGrace), ReportLine{"^C: mpiexec ends the ranks; press ^C again to exit at once"})
	}
	s.Phase = Killing
	return []Action{EndAll{0, 0}, Finish{}}
}

// BlameSignal makes a signal the cause of the job's end, unless there is a cause already.
func (s *State) BlameSignal(number job.Signal, now time.Time) {
	s.blameSignal(number, s.clock.jobTime(now))
}

func (s *State) blameSignal(number job.Signal, now time.Time) {
	s.setCause(s.causeOf(Failure{Kind: BySignal, Code: number.Status()}), now)
}
