/*
Package control decides about the requests of users to a running job: --status, --suspend, --end and
others (survive.md 7 and 8). A helper has checked the user's permission before.

	ControlRequest --> RateLimits.TooSoon --> WhyRefused --> package launch carries it out
	                        |                     |
	                        '---- refused <-------'

It performs no I/O and reads no clock.
*/
package control

import (
	"fmt"
	"time"

	"remshell/job"
)

// A Requester identifies a request: the node that forwarded it, and its ID.
type Requester struct {
	Node int
	ID   string
}

// A Request is a request by a user who has the permission (survive.md SV-26).
type Request struct {
	Requester
	Verb       job.Verb
	Args       []string
	User       string // name of the requester
	SayingNode string // the node that alone vouches for the requester; empty: this machine's own helper checked it
	Role       job.Role
}

// WhyRefused returns why a request is refused, or "" if it is carried out. running says that the job is
// not ending. suspended says that a user has suspended it. Further conditions of a checkpoint or a move
// are checked elsewhere.
func WhyRefused(verb job.Verb, running, suspended bool) string {
	if verb == job.VerbStatus || verb == job.VerbEnd {
		return ""
	}
	if !running {
		return "the job ends"
	}
	switch verb {
	case job.VerbSuspend:
		if suspended {
			return "already suspended"
		}
	case job.VerbResume:
		if !suspended {
			return "not suspended"
		}
	case job.VerbCheckpoint, job.VerbMigrate:
		if suspended {
			return job.SuspendedText + "its ranks cannot write a checkpoint"
		}
	default:
		return fmt.Sprintf("this mpiexec does not know what %q is", verb)
	}
	return ""
}

// describeUser returns the requester's name, marked as administrator if the job is another user's.
func (r Request) describeUser() string {
	if r.Role == job.RoleAdministrator {
		return r.User + " (administrator)"
	}
	return r.User
}

// withNode returns text, which describes a request to users. If the requester is on a remote node, it
// adds the node's name: only that node has checked who the requester is.
func (r Request) withNode(text string) string {
	if r.SayingNode == "" {
		return text
	}
	return r.SayingNode + " says: " + text
}

// EndText returns the line which says that this request ends the job.
func (r Request) EndText() string { return r.withNode("ended by " + r.describeUser() + " with --end") }

// MovedText returns the line which says that this request moves the job. to is a folded host list.
func (r Request) MovedText(to string) string {
	return r.withNode(fmt.Sprintf("moved to %s by %s with --migrate", to, r.describeUser()))
}

// MovingText returns the line which says that this request does what, a step of a move.
func (r Request) MovingText(what string) string {
	return r.withNode(fmt.Sprintf("%s (%s, --migrate)", what, r.describeUser()))
}

// SuspendText returns the line which says that this request suspends the job. ran is how long the job had
// run. node is a node through which the user can resume it.
func (r Request) SuspendText(ran time.Duration, id job.ID, node string) string {
	return r.withNode(fmt.Sprintf("suspended by %s (--suspend) after %s; to go on: mpiexec --resume-job %s %s", r.describeUser(), job.FormatClock(ran), id, node))
}
