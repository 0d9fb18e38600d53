package supervise

import (
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/text"
)

func (s *State) handleExit(exit *job.Exit, now time.Time) []Action {
	if !s.markRankOver(exit.Rank) {
		return nil
	}
	if s.isGroupKilled(exit.Rank) {
		return s.checkFinished(now)
	}
	if s.Exits == nil {
		s.Exits = make([]*job.Exit, 0, s.RanksLeft+1)
	}
	s.Exits = append(s.Exits, exit)
	if s.Phase >= Ending {
		if failedByItself(exit) {
			s.replaceDoubtful(s.causeOf(failureOf(exit)), now)
		}
		switch {
		case s.Cause != nil && exit.Rank == s.Cause.Rank:
		case s.recordFailedWith(exit, now):
		default:
			s.endedByUs = append(s.endedByUs, exit)
		}
		return s.checkFinished(now)
	}
	if s.recordCheckpointed(exit, now) {
		return s.checkFinished(now)
	}
	if status := exit.Status(); status != 0 && s.Phase == Running {
		return s.handleRankFailure(exit, now)
	}
	early := exit.Status() == 0 && exit.PMI == job.PMIOpen && s.Phase == Running && len(s.ranks) > 1
	if early && s.policy.EndPolicy.KeepAll && s.RanksLeft > 0 {
		return []Action{s.reportContinues(s.RankOnNode(exit.Rank) + " ended without calling MPI_Finalize")}
	}
	if early && !s.policy.EndPolicy.KeepAll {
		s.pending.suspectNotFinalized(s.causeOf(Failure{Kind: NotFinalized, Rank: exit.Rank}), exit.Rank, now)
	}
	return s.checkFinished(now)
}

// recordCheckpointed records a rank that has exited because it has written a requested checkpoint and wants to be
// restarted. The other ranks have until checkpointUntil to do the same (rule SV-14). It returns false if the rank
// has exited for another reason.
func (s *State) recordCheckpointed(exit *job.Exit, now time.Time) bool {
	if s.Phase != Running || exit.Signal != 0 || exit.Code != job.ExitCheckpointed || now.After(s.pending.checkpointUntil) {
		return false
	}
	s.pending.checkpointed.set(s.causeOf(failureOf(exit)), s.pending.checkpointUntil)
	return true
}

// failedByItself reports whether a rank that ended while the job was ending may be the real cause of the end. It
// returns true if the rank crashed or exited with a code other than 0. It returns false if the rank called MPI_Abort,
// because that is a reaction to another rank's failure.
func failedByItself(exit *job.Exit) bool {
	return !exit.ToldToEnd && exit.Status() != 0 && (exit.Signal != 0 || exit.PMI != job.PMIAborted)
}

// recordFailedWith records a rank that has failed by itself within sameFailureTime of the cause (rule REP-2). It
// returns false if the rank has ended in another way.
func (s *State) recordFailedWith(exit *job.Exit, now time.Time) bool {
	if s.Cause == nil || s.Cause.Rank < 0 || exit.ToldToEnd || exit.Status() == 0 || now.Sub(s.causeAt) > sameFailureTime {
		return false
	}
	s.failedWith = append(s.failedWith, exit)
	return true
}

// sameFailureTime is how long after the first failure the failures of other ranks are still listed together with it
// (rule REP-2).
const sameFailureTime = 100 * time.Millisecond

// handleRankFailure handles the end of a rank that failed by itself.
func (s *State) handleRankFailure(exit *job.Exit, now time.Time) []Action {
	c := s.causeOf(failureOf(exit))
	keepAll := s.policy.EndPolicy.KeepAll
	if !keepAll && (exit.Signal != 0 || !s.policy.EndPolicy.KeepOnExit) {
		return s.endWithCause(c, now)
	}
	if s.Cause != nil {
		s.recordFailedWith(exit, now)
	}
	s.setCause(c, now)
	var actions []Action
	if keepAll && s.RanksLeft > 0 {
		actions = append(actions, s.reportContinues(c.Text))
	}
	return append(actions, s.checkFinished(now)...)
}

// reportContinues returns the action which reports that the other ranks continue. ended is the text that says which
// rank has ended and how.
func (s *State) reportContinues(ended string) Action {
	return ReportLine{fmt.Sprintf("%s; the job continues with %s", ended, text.Count(s.RanksLeft, "rank"))}
}

// handleNodeLost handles the loss of a node. sinceStart is the time since the start of the ranks, including
// times in which they were stopped.
func (s *State) handleNodeLost(kind Kind, e NodeLost, sinceStart time.Duration, now time.Time) []Action {
	done := s.nodes[e.Node].finished
	lost := s.markNodeOver(e.Node)
	if done && len(lost) == 0 {
		return nil // nothing of the job was left on it
	}
	killed := kind == NodeConnectionLost && s.killedByBatch(now)
	if killed {
		lost = s.addRecentlyKilled(lost, e.Node)
	}
	failure := Failure{Kind: kind, Node: e.Node, Text: e.Why, ranks: lost, sinceStart: sinceStart}
	if slices.Contains(helperKilledPatterns, e.Why) {
		failure.Hint = s.logHint(e.Node)
	}
	c := s.causeOf(failure)
	switch {
	case killed:
		s.replaceCause(c)
	case len(lost) > 0:
		s.replaceDoubtful(c, now)
	}
	return s.endWithCause(c, now)
}
