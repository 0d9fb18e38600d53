/*
Package control decides whether a running job carries out a user's request: --status, --suspend, --end and others
(survive.md 7 and 8). A helper has already checked that the user may make the request.

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

// A Requester identifies the source of a request: the node that has forwarded it, and the request's ID on this node.
type Requester struct {
	Node int
	ID   string
}

// A Request is a user's request to the job. mpiexec has checked that the user may make it (survive.md SV-26).
type Request struct {
	Requester
	Verb       job.Verb
	Args       []string
	User       string // name of the requester
	SayingNode string // the node that alone vouches for the requester; empty: this machine's own helper checked it
	Role       job.Role
}

// Terms say when a job refuses requests with a given verb. They are registered by the feature that carries out these
// requests.
type Terms struct {
	WhileEnding  bool   // the job also carries them out while it ends
	Suspended    string // why a job that a user has suspended refuses; empty: it does not
	NotSuspended string // why any other job refuses; empty: it does not
}

var termsOf = make(map[job.Verb]Terms)

// Register sets when jobs refuse requests with the given verb. It is called during program initialization.
func Register(verb job.Verb, terms Terms) { termsOf[verb] = terms }

// WhyRefused returns the reason for refusing a request, or "" if the request may be carried out. running is
// true unless the job is ending. suspended is true if a user has suspended the job. The feature that carries
// out the request may have further conditions.
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

// DescribeUser returns the name of the user who has made the request. If the job belongs to another user, the
// result says that the requester is an administrator.
func (r Request) DescribeUser() string {
	if r.Role == job.RoleAdministrator {
		return r.User + " (administrator)"
	}
	return r.User
}

// WithNode returns text, which says what a user has requested. If the user is on a remote node, WithNode adds the
// node's name, because only that node has checked who the user is.
func (r Request) WithNode(text string) string {
	if r.SayingNode == "" {
		return text
	}
	return r.SayingNode + " says: " + text
}

// EndText returns the line which reports that this request ends the job.
func (r Request) EndText() string {
	return r.WithNode("the job was ended by " + r.DescribeUser() + " with --end")
}
