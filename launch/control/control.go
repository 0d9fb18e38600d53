/*
Package control decides about the requests of users to a running job: --status, --suspend, --end and
others (survive.md 7 and 8). A helper has checked the user's permission before.

	ControlRequest --> RateLimits.TooSoon --> WhyRefused --> a feature carries it out
	                        |                     |
	                        '---- refused <-------'-- Terms, which the feature has registered

It performs no I/O and reads no clock.
*/
package control

import (
	"fmt"

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

// Terms say when a job refuses requests with a verb. The feature that carries them out registers them.
type Terms struct {
	WhileEnding  bool   // the job carries them out also while it ends
	Suspended    string // why a job that a user has suspended refuses; empty: it does not
	NotSuspended string // why any other job refuses; empty: it does not
}

var termsOf = make(map[job.Verb]Terms)

// Register adds the terms of a verb. It is called while the program is initialized.
func Register(verb job.Verb, terms Terms) { termsOf[verb] = terms }

// WhyRefused returns why a request is refused, or "" if it is carried out. running says that the job is
// not ending. suspended says that a user has suspended it. The feature may have further conditions.
func WhyRefused(verb job.Verb, running, suspended bool) string {
	terms, known := termsOf[verb]
	switch {
	case !running && !terms.WhileEnding:
		return "the job is already ending"
	case !known:
		return fmt.Sprintf("the mpiexec of this job does not support the request %q", verb)
	case suspended:
		return terms.Suspended
	}
	return terms.NotSuspended
}

// DescribeUser returns the requester's name, marked as administrator if the job is another user's.
func (r Request) DescribeUser() string {
	if r.Role == job.RoleAdministrator {
		return r.User + " (administrator)"
	}
	return r.User
}

// WithNode returns text, which describes a request to users. If the requester is on a remote node, it
// adds the node's name: only that node has checked who the requester is.
func (r Request) WithNode(text string) string {
	if r.SayingNode == "" {
		return text
	}
	return r.SayingNode + " says: " + text
}

// EndText returns the line which says that this request ends the job.
func (r Request) EndText() string {
	return r.WithNode("the job was ended by " + r.DescribeUser() + " with --end")
}
