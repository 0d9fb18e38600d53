package supervise

import (
	"slices"
	"time"
)

// handleFailure handles a failure. It ends the job at once, or a little later if the failure may be the
// consequence of another one that has not been reported yet.
func (s *State) handleFailure(e Failure, now time.Time) []Action {
	c := s.causeOf(e)
	if s.policy.EndPolicy.KeepAll && c.rule().tolerable && s.Phase == Running {
		return s.tolerateCause(c)
	}
	if wait := c.rule().delay; wait > 0 {
		if s.Cause == nil && s.Phase == Running {
			s.pending.suspected.set(c, now.Add(wait))
		}
		return nil
	}
	return s.endWithCause(c, now)
}

// tolerateCause reports a failure to the user, and the other ranks continue. It does not report a lost PMI connection,
// because the end of that rank is reported anyway. Of several barriers that can never complete, it reports only the
// first.
func (s *State) tolerateCause(c Cause) []Action {
	if c.Kind == PMIDisconnected || c.Kind == PMIBarrierBroken && s.brokenReported {
		return nil
	}
	s.brokenReported = s.brokenReported || c.Kind == PMIBarrierBroken
	return []Action{ReportLine{"note: " + c.Text}}
}

// endWithCause ends the job. It makes c the cause of the job's end, if there is none yet. After all ranks have ended,
// most kinds of causes are ignored.
func (s *State) endWithCause(c Cause, now time.Time) []Action {
	if s.Phase == Lingering && !c.Kind.CountsAfterRanks() {
		return s.checkFinished(now) // the job ends already, and ended well
	}
	s.setCause(c, now)
	return s.endRanks(now, Ending, s.policy.Grace)
}

// setCause makes c the cause of the job's end, if there is none yet. Otherwise, it keeps c in laterEnd if c is the
// first later cause of a kind in externalCauses.
func (s *State) setCause(c Cause, now time.Time) {
	if s.Cause != nil {
		if s.laterEnd == nil && slices.Contains(externalCauses, c.Kind) {
			s.laterEnd = &c
		}
		return
	}
	s.Cause, s.causeAt = &c, now
}

// externalCauses contains the kinds of causes after which no other attempt (run of all ranks) follows, even if the job
// was already ending for another reason.
var externalCauses = []Kind{BySignal, BatchEndsJob, EndedByRequest}

// WasToldToEnd reports whether a user or the batch system told the job to end when it was already ending. In that
// case no further attempt may follow. If the job was ending for a move, WasToldToEnd makes the later request the
// cause.
func (s *State) WasToldToEnd() bool {
	if s.laterEnd != nil && s.IsMoved() {
		s.Cause = s.laterEnd
	}
	return s.laterEnd != nil
}

// replaceDoubtful makes c the cause of the job's end, if the current cause may be a consequence of c.
func (s *State) replaceDoubtful(c Cause, now time.Time) {
	doubt := causeGrace
	if c.Kind == NodeConnectionLost {
		doubt += maxLossDelay
	}
	if s.Cause != nil && !s.causeReplaced && now.Sub(s.causeAt) <= doubt && s.Cause.yieldsTo(c) {
		s.replaceCause(c)
	}
}

// replaceCause makes c the cause of the job's end instead of the current cause.
func (s *State) replaceCause(c Cause) { s.Cause, s.causeReplaced = &c, true }
