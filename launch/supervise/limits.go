package supervise

import (
	"time"

	"remshell/limits"
)

// limitExceeded ends a job that has exceeded a limit.
func (s *State) limitExceeded(excess limits.Excess, now time.Time) []Action {
	if s.Phase > Interrupted {
		return nil
	}
	return append(s.reportExcess(excess, now), s.endRanks(now, Ending, s.policy.Grace)...)
}

// reportExcess reports that a limit was exceeded, and makes that the cause of the job's end unless there is
// one already.
func (s *State) reportExcess(excess limits.Excess, now time.Time) []Action {
	s.setCause(s.causeOf(Failure{Kind: OverLimit, Text: excess.String()}), now)
	return []Action{BatchLine{"=>> mpiexec: job killed: " + excess.BatchLine()}}
}
