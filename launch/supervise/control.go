package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/text"
)

// handleControl does what somebody wants who may (survive.md SV-26).
func (s *State) handleControl(e ControlRequested, now time.Time) []Action {
	switch e.Verb {
	case job.VerbStatus:
		return []Action{InspectRanks{Requester: &e.Requester}}
	case job.VerbEnd:
		s.setCause(s.causeOf(Failure{Kind: EndedByRequest, Text: e.WithNode("ended by " + e.Describe() + " with --end")}, now), now)
		return append([]Action{SendReply{To: e, State: job.ReplyAccepted, Text: "the job is ended"}}, s.endRanks(now, Ending, s.policy.Grace)...)
	}
	if s.Phase != Running {
		return []Action{SendReply{To: e, State: job.ReplyRefused, Text: "the job ends"}}
	}
	switch e.Verb {
	case job.VerbSuspend:
		return s.suspendRanks(e, now)
	case job.VerbResume:
		return s.handleResume(e, now)
	case job.VerbCheckpoint, job.VerbMigrate:
		if s.IsSuspended() {
			return []Action{SendReply{To: e, State: job.ReplyRefused, Text: job.SuspendedText + "its ranks cannot write a checkpoint"}}
		}
		if e.Verb == job.VerbMigrate {
			return []Action{FindMoveTarget{e}}
		}
		return []Action{RequestCheckpoint{e}}
	}
	return []Action{SendReply{To: e, State: job.ReplyRefused, Text: fmt.Sprintf("this mpiexec does not know what %q is", e.Verb)}}
}

// endForMove ends the attempt, for the next one to begin elsewhere (survive.md SV-17). Where all ranks have left by themselves,
// it is moved if one of them wants to be started again; else it is over.
func (s *State) endForMove(e MoveReady, now time.Time) []Action {
	c := s.causeOf(Failure{Kind: EndedByMove, Text: e.By.WithNode(fmt.Sprintf("moved to %s by %s with --migrate", e.To, e.By.Describe()))}, now)
	if s.Phase == Lingering && s.Cause != nil && s.AllCheckpointed() {
		s.Cause = &c
		return s.checkFinished(now)
	}
	if s.Phase != Running {
		return s.checkFinished(now)
	}
	s.Cause = nil // a rank that failed was let be, and begins anew with the others
	s.setCause(c, now)
	return s.endRanks(now, Ending, s.policy.Grace)
}

// IsMoved reports whether the attempt ends to be moved, and not since it has failed.
func (s *State) IsMoved() bool { return s.Cause != nil && s.Cause.Kind == EndedByMove }

// Describe is the asker, and why he may if the job is not his.
func (e ControlRequested) Describe() string {
	if e.Role == job.RoleAdministrator {
		return e.User + " (administrator)"
	}
	return e.User
}

// WithNode is what users read of an ask: what only another host knows, that host says.
func (e ControlRequested) WithNode(text string) string {
	if e.SayingNode == "" {
		return text
	}
	return e.SayingNode + " says: " + text
}

// RateLimits bound how often each node brings asks that change something: a host may say whatever it likes of who asks. A value is
// when all askBurst of them may come at once again.
type RateLimits map[rateKey]time.Time

type rateKey struct {
	node       string
	statusOnly bool // that of questions, which change nothing
}

// controlBurst asks may come by a node at once, and another one each askPause, or statusPause for questions.
const (
	controlBurst    = 8
	controlInterval = 10 * time.Second
	statusInterval  = time.Second
)

// TooSoon counts what is asked by another host, and says why it is refused; empty: it is not. A host may end the job in any case.
func (s *State) TooSoon(e ControlRequested, now time.Time) string {
	if e.SayingNode == "" || e.Verb == job.VerbEnd {
		return ""
	}
	p, pause := rateKey{e.SayingNode, e.Verb == job.VerbStatus}, controlInterval
	if p.statusOnly {
		pause = statusInterval
	}
	full := s.policy.RateLimits[p]
	if full.Before(now) {
		full = now
	}
	full = full.Add(pause)
	if wait := full.Sub(now) - controlBurst*pause; wait > 0 {
		return fmt.Sprintf("too many requests have come by %s; ask again in %s", e.SayingNode, text.FormatDuration((wait + time.Second - 1).Truncate(time.Second)))
	}
	s.policy.RateLimits[p] = full
	return ""
}
