package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/limits"
	"remshell/text"
)

// wallLimitFirst reports whether the wall time limit is shorter than -timeout.
func (r Policy) wallLimitFirst() bool {
	return r.WallTime.Max > 0 && (r.Timeout == 0 || r.WallTime.Max < r.Timeout)
}

// timeLeft returns how long the job may run to end before its batch system ends it, by the margin
// that the user set. It is at least one second. It returns 0 if there is no margin or no known end.
func (s *State) timeLeft(now time.Time) time.Duration {
	if s.policy.Margin == 0 || s.policy.BatchJob.End.IsZero() {
		return 0
	}
	return max(time.Second, s.policy.BatchJob.End.Add(-s.policy.Margin).Sub(now))
}

// End returns when the job has to end, by -timeout, a limit or its batch system, whichever comes
// first. Zero means unknown.
func (s *State) End() time.Time {
	var ends time.Time
	if run := s.deadlines.run; !run.IsZero() {
		ends = s.clock.moment(run)
	}
	if end := s.policy.BatchJob.End; !end.IsZero() && (ends.IsZero() || end.Before(ends)) {
		ends = end
	}
	return ends
}

// warnAt returns when to warn the ranks of that end; zero: never (RM-58).
func (s *State) warnAt() time.Time {
	ends := s.End()
	if s.policy.Warn.Signal == 0 || ends.IsZero() {
		return time.Time{}
	}
	return s.clock.jobTime(ends.Add(-s.policy.Warn.Before))
}

// warnRetry is how long to wait for ranks that have not started when the warning is due.
const warnRetry = 100 * time.Millisecond

// warnRanks sends the warning signal to the ranks, once all have started.
func (s *State) warnRanks(now time.Time) []Action {
	if s.unstarted > 0 {
		s.deadlines.warn = now.Add(warnRetry)
		return nil
	}
	s.deadlines.warn = time.Time{}
	number := job.Signal(s.policy.Warn.Signal)
	line := fmt.Sprintf("%v before the end: sent %s to %s on %s", s.policy.Warn.Before, number, text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"))
	return []Action{SignalAllRanks{number}, ReportLine{line}}
}

// limitExceeded ends a job that exceeded a limit.
func (s *State) limitExceeded(excess limits.Excess, now time.Time) []Action {
	if s.Phase > Interrupted {
		return nil
	}
	return append(s.reportExcess(excess, now), s.endRanks(now, Ending, s.policy.Grace)...)
}

// reportExcess reports a limit that was exceeded. It is the cause, unless there is one already.
func (s *State) reportExcess(excess limits.Excess, now time.Time) []Action {
	s.setCause(s.causeOf(Failure{Kind: OverLimit, Text: excess.String()}), now)
	return []Action{BatchLine{"=>> mpiexec: job killed: " + excess.BatchLine()}}
}
