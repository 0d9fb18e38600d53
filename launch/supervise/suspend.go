package supervise

import (
	"fmt"
	"time"

	"remshell/job"
)

// This file suspends a job and lets it go on (survive.md SV-28): its ranks stop, and its claims stay.

// IsSuspended reports whether the ranks stand still, because somebody wants them to.
func (s *State) IsSuspended() bool { return !s.heldSince.IsZero() }

// suspendRanks has all ranks stand still.
func (s *State) suspendRanks(e ControlRequested, now time.Time) []Action {
	if s.IsSuspended() {
		return []Action{SendReply{To: e, State: job.ReplyRefused, Text: "already suspended"}}
	}
	s.heldSince = now
	told := fmt.Sprintf("suspended by %s (--suspend) after %s; to go on: mpiexec --resume-job %s %s", e.Describe(), job.FormatClock(now.Sub(s.began)), s.id, s.nodes[e.Node].name)
	return []Action{HoldRanks{On: true}, ReportLine{e.WithNode(told)}, SendReply{To: e, State: job.ReplyDone, Text: "suspended"}}
}

// handleResume lets the ranks go on.
func (s *State) handleResume(e ControlRequested, now time.Time) []Action {
	if !s.IsSuspended() {
		return []Action{SendReply{To: e, State: job.ReplyRefused, Text: "not suspended"}}
	}
	stood := now.Sub(s.heldSince)
	return append(s.resumeRanks(now), ReportLine{"goes on after " + job.FormatClock(stood)}, SendReply{To: e, State: job.ReplyDone, Text: "goes on"})
}

// resumeRanks lets the ranks go on. What time there is for anything has stood still with them; but that of an
// ending has only begun.
func (s *State) resumeRanks(now time.Time) []Action {
	stood := now.Sub(s.heldSince)
	s.heldSince = time.Time{}
	if s.Phase <= Interrupted {
		s.Shift(stood)
	}
	return []Action{HoldRanks{HeldFor: stood}}
}
