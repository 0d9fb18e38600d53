package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/text"
)

// handleControl carries out a request by a user who has the permission (survive.md SV-26).
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

// endForMove ends the attempt so that the next one begins elsewhere (survive.md SV-17). If all
// ranks have ended by themselves, the job moves only if one of them wrote a checkpoint and wants to
// be started again.
func (s *State) endForMove(e MoveReady, now time.Time) []Action {
	c := s.causeOf(Failure{Kind: EndedByMove, Text: e.By.WithNode(fmt.Sprintf("moved to %s by %s with --migrate", e.To, e.By.Describe()))}, now)
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

// IsMoved reports whether the attempt ends because the job is moved.
func (s *State) IsMoved() bool { return s.Cause != nil && s.Cause.Kind == EndedByMove }

// Describe returns the requester's name, marked as administrator if the job is another user's.
func (e ControlRequested) Describe() string {
	if e.Role == job.RoleAdministrator {
		return e.User + " (administrator)"
	}
	return e.User
}

// WithNode returns the text of a request for users. It names the node if only that node vouches for
// the requester.
func (e ControlRequested) WithNode(text string) string {
	if e.SayingNode == "" {
		return text
	}
	return e.SayingNode + " says: " + text
}

// RateLimits limit how often each remote node forwards requests, since a node could invent
// requesters. A value is the time at which controlBurst requests may again arrive at once.
type RateLimits map[rateKey]time.Time

type rateKey struct {
	node       string
	statusOnly bool // requests for the status, which change nothing
}

// A node may forward controlBurst requests at once, and then one each controlInterval, or
// statusInterval for status requests.
const (
	controlBurst    = 8
	controlInterval = 10 * time.Second
	statusInterval  = time.Second
)

// TooSoon counts a request forwarded by a remote node. It returns why the request is refused, or
// "". A request to end the job is never refused.
func (s *State) TooSoon(e ControlRequested, now time.Time) string {
	if e.SayingNode == "" || e.Verb == job.VerbEnd {
		return ""
	}
	key, pause := rateKey{e.SayingNode, e.Verb == job.VerbStatus}, controlInterval
	if key.statusOnly {
		pause = statusInterval
	}
	fullAgain := s.policy.RateLimits[key]
	if fullAgain.Before(now) {
		fullAgain = now
	}
	fullAgain = fullAgain.Add(pause)
	if wait := fullAgain.Sub(now) - controlBurst*pause; wait > 0 {
		return fmt.Sprintf("too many requests have come by %s; ask again in %s", e.SayingNode, text.FormatDuration((wait + time.Second - 1).Truncate(time.Second)))
	}
	s.policy.RateLimits[key] = fullAgain
	return ""
}
