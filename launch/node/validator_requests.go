package node

import "remshell/wire"

// This file tracks requests: those of mpiexec to the helper, and those of the helper's ranks to mpiexec
// (rule TRUST-4).

// An openRequests counts the requests with one reply key that have no reply yet.
type openRequests struct {
	open      int
	abandoned int // requests among them for whose reply mpiexec no longer waits
}

// A requestTable contains mpiexec's requests that have no reply yet, by the key that a request and its reply share.
type requestTable map[wire.ReplyKey]*openRequests

// addRequest counts a message to the helper, if it is a request.
func (o requestTable) addRequest(m wire.Message) {
	key, isRequest := wire.KeyOfRequest(m)
	if !isRequest {
		return
	}
	q := o[key]
	if q == nil {
		q = new(openRequests)
		o[key] = q
	}
	q.open++
}

// expects reports whether m is the reply to a request in the table.
func (o requestTable) expects(m wire.Message) bool {
	key, _ := wire.KeyOfReply(m)
	return o[key] != nil
}

// takeReply removes the request to which m is the reply. It returns nil if mpiexec no longer waits for this reply.
// Several requests may have the key of m, and mpiexec may have abandoned some of them. m then counts as the reply to
// one that was not abandoned, unless the key contains an ID. With an ID, the abandoned ones come first.
func (o requestTable) takeReply(m wire.Message) (wire.Message, error) {
	key, _ := wire.KeyOfReply(m)
	q := o[key]
	if q == nil {
		return nil, ErrNotAsked
	}
	abandoned := q.abandoned == q.open || q.abandoned > 0 && key.ID != ""
	if abandoned {
		q.abandoned--
	}
	if q.open--; q.open == 0 {
		delete(o, key)
	}
	if abandoned {
		return nil, nil
	}
	return m, nil
}

// abandon records that mpiexec no longer waits for the reply to a request.
func (o requestTable) abandon(request wire.Message) {
	key, _ := wire.KeyOfRequest(request)
	if q := o[key]; q != nil && q.abandoned < q.open {
		q.abandoned++
	}
}

// abandonGroup records that mpiexec no longer waits for replies to any Prepare of a group.
func (o requestTable) abandonGroup(group string) {
	key, _ := wire.KeyOfRequest(&wire.Prepare{Group: wire.Group{Name: group}})
	if q := o[key]; q != nil {
		q.abandoned = q.open
	}
}

// maxControlRate is the maximum number of ControlRequests that a node may send each second. Its helper forwards one at
// a time for each authorized user.
const maxControlRate = 100

// checkControl checks a user's request to the job (survive.md SV-25). The node must run ranks of the job, or have
// run some in the previous attempt (one run of all ranks). It may have only one request without a reply.
func (v *Validator) checkControl(m *wire.ControlRequest) (wire.Message, error) {
	switch {
	case v.progress.groupsStarted == 0 && !v.progress.hasPredecessor:
		return nil, TooEarly(m)
	case v.progress.controlOpen:
		return nil, Violationf("the host sent a ControlRequest before mpiexec had answered the previous one")
	case m.ID == "" || m.Ledger != "":
		return nil, InvalidValue(m, "ID", m.ID)
	case v.controlRate.allow(v.now(), maxControlRate, m) == nil:
		return nil, Violationf("the host sent more than %d ControlRequests in a second", maxControlRate)
	}
	admitted, err := v.UnlessEnding(m)
	if v.progress.groupsStarted > 0 {
		admitted, err = v.UnlessDrained(admitted, err)
	}
	if admitted != nil {
		v.progress.controlOpen = true
	}
	return admitted, err
}

// RankRequests counts the requests of one kind that a node's ranks have sent and that have no reply yet. A feature
// keeps one for its own messages (StateOf).
type RankRequests struct {
	lastID     int
	unanswered int
}

// maxUnanswered is the maximum number of requests without a reply that CheckRankRequest allows.
const maxUnanswered = 64

// CheckNext checks the ID of a rank's request. It returns a violation unless the ID is higher than the last one and
// fewer than limit requests have no reply. kind names the requests in the text of the violation.
func (r *RankRequests) CheckNext(m wire.Message, id, limit int, kind string) error {
	switch {
	case id <= r.lastID:
		return InvalidValue(m, "ID", id)
	case r.unanswered >= limit:
		return Violationf("the host sent %d %s at once", limit+1, kind)
	}
	r.lastID = id
	return nil
}

// Count counts a request, unless admitted is nil. It returns admitted and err.
func (r *RankRequests) Count(admitted wire.Message, err error) (wire.Message, error) {
	if admitted != nil {
		r.unanswered++
	}
	return admitted, err
}

// CountReply records that a reply to a request is sent.
func (r *RankRequests) CountReply() { r.unanswered-- }
