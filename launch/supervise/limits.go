package supervise

import (
	"time"

	"remshell/limits"
)

// limitExceeded reports that a resource limit was exceeded, and ends the job, unless the job is ending already.
func (s *State) limitExceeded(excess limits.Excess, now time.Time) []Action {
	if s.Phase > Interrupted {
		return nil
	}
	return append(s.reportExcess(excess, now), s.endRanks(now, Ending, s.policy.Grace)...)
}

// reportExcess reports that a limit was exceeded, and makes this the cause of the job's end, unless the end already has
// a cause.
func (s *State) reportExcess(excess limits.Excess, now time.Time) []Action {
	s.setCause(s.causeOf(Failure{Kind: OverLimit, Text: excess.String()}), now)
	return []Action{BatchLine{"=>> mpiexec: job killed: " + excess.BatchLine()}}
}
