package supervise

import "time"

// endForMove ends the attempt (one run of all ranks), because the next attempt will run on other nodes (survive.md
// SV-17). If all ranks have ended by themselves, the job is moved only if one of them has written a checkpoint and
// wants to be restarted.
func (s *State) endForMove(e MoveReady, now time.Time) []Action {
	c := s.causeOf(Failure{Kind: EndedByMove, Text: e.Text})
	if s.Phase == Lingering && s.Cause != nil && s.AllCheckpointed() {
		s.Cause = &c
		return s.checkFinished(now)
	}
	if s.Phase != Running {
		return s.checkFinished(now)
	}
	s.Cause = nil // a rank that failed while the others went on starts again with them
	s.setCause(c, now)
	return s.endRanks(now, Ending, s.policy.Grace)
}

// IsMoved reports whether the attempt (one run of all ranks) ends because the job moves to other nodes.
func (s *State) IsMoved() bool { return s.Cause != nil && s.Cause.Kind == EndedByMove }
