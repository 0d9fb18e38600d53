package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/limits"
	"remshell/text"
)

// wallLimitFirst reports whether the limit of the wall time comes before -timeout.
func (r Policy) wallLimitFirst() bool {
	wall := r.ResourceLimits.Time(limits.WallTime)
	return wall > 0 && (r.Timeout == 0 || wall < r.Timeout)
}

// timeLeft is how long a job may run so that it ends by a margin before its batch system ends it: a second at
// least; 0: nobody has asked for that.
func (s *State) timeLeft(now time.Time) time.Duration {
	if s.policy.Margin == 0 || s.policy.BatchJob.End.IsZero() {
		return 0
	}
	return max(time.Second, s.policy.BatchJob.End.Add(-s.policy.Margin).Sub(now))
}

// End is when the job has to end, by -timeout, a limit or its batch system, whichever comes first; zero: nobody knows.
func (s *State) End() time.Time {
	ends := s.deadlines.run
	if end := s.policy.BatchJob.End; !end.IsZero() && (ends.IsZero() || end.Before(ends)) {
		ends = end
	}
	return ends
}

// warnAt is when the ranks are to be warned of that end; zero: never (RM-58).
func (s *State) warnAt() time.Time {
	ends := s.End()
	if s.policy.Warn.Signal == 0 || ends.IsZero() {
		return time.Time{}
	}
	return ends.Add(-s.policy.Warn.Before)
}

// warnRetry is when ranks are looked for again that have not begun when they were to be warned.
const warnRetry = 100 * time.Millisecond

// warnRanks tells the ranks that the end is near, once there are all that are to be told.
func (s *State) warnRanks(now time.Time) []Action {
	if s.unstarted > 0 {
		s.deadlines.warn = now.Add(warnRetry)
		return nil
	}
	s.deadlines.warn = time.Time{}
	number := job.Signal(s.policy.Warn.Signal)
	words := fmt.Sprintf("%v before the end: sent %s to %s on %s", s.policy.Warn.Before, number, text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"))
	return []Action{SignalAllRanks{number}, ReportLine{words}}
}

// checkLimits sees that the job, the node that has told, and each rank of it use no more than they may,
// and ends the job if one does (RM-56).
func (s *State) checkLimits(e SampledUsage, now time.Time) []Action {
	if len(s.policy.ResourceLimits) == 0 {
		return nil
	}
	if excess, is := s.findExcess(e); is {
		return s.limitExceeded(excess, now)
	}
	return nil
}

// limitExceeded ends a job that has used more than it may.
func (s *State) limitExceeded(excess limits.Excess, now time.Time) []Action {
	if s.Phase > Interrupted {
		return nil
	}
	return append(s.reportExcess(excess, now), s.endRanks(now, Ending, s.policy.Grace)...)
}

// reportExcess tells what was exceeded, and makes it the cause, if there was none before.
func (s *State) reportExcess(excess limits.Excess, now time.Time) []Action {
	s.setCause(s.causeOf(Failure{Kind: OverLimit, Text: excess.String()}, now), now)
	return []Action{BatchLine{"=>> mpiexec: job killed: " + excess.BatchLine()}}
}

// nodeExcess says what has exceeded a limit of a node's own.
func (s *State) nodeExcess(e LimitExceeded) limits.Excess {
	name := s.nodes[e.Node].name
	where := " on host " + name
	switch {
	case e.Rank >= 0:
		where = " by rank " + s.RankNumber(e.Rank) + where
	case e.Resource == limits.RankMem:
		where = " by processes of no rank" + where
	}
	return limits.Excess{Name: e.Resource, Used: e.Used, Allowed: e.Allowed, Where: where, From: "limits.toml of " + name}
}

// findExcess finds a limit that is exceeded, if there is one.
func (s *State) findExcess(e SampledUsage) (found limits.Excess, is bool) {
	all, host := s.Usage.maximum, " on host "+s.nodes[e.Node].name
	for _, check := range []struct {
		what  limits.Resource
		used  int64
		where string
	}{
		{limits.CPUTime, int64(all.CPU), ""}, {limits.Mem, all.Mem, ""}, {limits.VMem, all.VMem, ""},
		{limits.HostMem, e.Mem, host}, {limits.HostVMem, e.VMem, host},
	} {
		most, limited := s.policy.ResourceLimits[check.what]
		if limited && check.used > most {
			return limits.Excess{Name: check.what, Used: check.used, Allowed: most, Where: check.where, From: s.policy.LimitOrigins[check.what]}, true
		}
	}
	most, limited := s.policy.ResourceLimits[limits.RankMem]
	for _, r := range e.Ranks {
		if limited && r.Mem > most {
			return limits.Excess{Name: limits.RankMem, Used: r.Mem, Allowed: most, Where: fmt.Sprintf(" by rank %s%s", s.RankNumber(r.Rank), host),
				From: s.policy.LimitOrigins[limits.RankMem]}, true
		}
	}
	return limits.Excess{}, false
}
