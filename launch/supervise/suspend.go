package supervise

import (
	"fmt"
	"time"

	"remshell/job"
)

// This file suspends and resumes a job (survive.md SV-28). Its ranks are stopped; its claims stay.

// IsSuspended reports whether the ranks are suspended by a user's request.
func (s *State) IsSuspended() bool { return !s.heldSince.IsZero() }

// suspendRanks suspends all ranks.
func (s *State) suspendRanks(e ControlRequested, now time.Time) []Action {
	if s.IsSuspended() {
		return []Action{SendReply{To: e, State: job.ReplyRefused, Text: "already suspended"}}
	}
	s.heldSince = now
	line := fmt.Sprintf("suspended by %s (--suspend) after %s; to go on: mpiexec --resume-job %s %s", e.Describe(), job.FormatClock(now.Sub(s.began)), s.id, s.nodes[e.Node].name)
	return []Action{HoldRanks{On: true}, ReportLine{e.WithNode(line)}, SendReply{To: e, State: job.ReplyDone, Text: "suspended"}}
}

// handleResume resumes the ranks.
func (s *State) handleResume(e ControlRequested, now time.Time) []Action {
	if !s.IsSuspended() {
		return []Action{SendReply{To: e, State: job.ReplyRefused, Text: "not suspended"}}
	}
	suspended := now.Sub(s.heldSince)
	return append(s.resumeRanks(now), ReportLine{"goes on after " + job.FormatClock(suspended)}, SendReply{To: e, State: job.ReplyDone, Text: "goes on"})
}

// resumeRanks resumes the ranks, and moves all deadlines by the time of the suspension. Deadlines
// of a job that is ending do not move.
func (s *State) resumeRanks(now time.Time) []Action {
	suspended := now.Sub(s.heldSince)
	s.heldSince = time.Time{}
	if s.Phase <= Interrupted {
		s.Shift(suspended)
	}
	return []Action{HoldRanks{HeldFor: suspended}}
}
