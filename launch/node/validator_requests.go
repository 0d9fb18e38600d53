package node

import (
	"strings"

	"remshell/wire"
)

// This file tracks requests: those of mpiexec to the helper, and those of the helper's ranks to mpiexec
// (TRUST-4).

// openRequests counts the requests with one reply key that have no reply yet.
type openRequests struct {
	open      int
	abandoned int // requests among them for whose reply nobody waits any more
}

// A requestTable holds mpiexec's open requests by reply key: the kind of the reply, and its group or
// request ID if the kind has one.
type requestTable map[string]*openRequests

// replyKeyOf returns the key of the reply to m. It is empty if m is not a request.
func replyKeyOf(m wire.Message) string {
	switch m := m.(type) {
	case *wire.LockDecision:
		return "DecisionLocked"
	case *wire.Survey:
		return "Surveyed"
	case *wire.Enqueue, *wire.Overtake:
		return "QueuePosition"
	case *wire.ListLedger:
		return "LedgerListed"
	case *wire.SignalJob:
		return "JobSignaled"
	case *wire.Evict:
		return "Evicted"
	case *wire.WriteMark:
		return "MarkWritten"
	case *wire.ReadMarks:
		return "MarksRead"
	case *wire.Diagnose:
		return "Diagnosed"
	case *wire.OpenProbePort:
		return "ProbePortOpened"
	case *wire.ProbePeers:
		return "PeersProbed"
	case *wire.InspectRanks:
		return "RankStates"
	case *wire.NextAttempt:
		return "AttemptReady"
	case *wire.ControlRequest:
		return controlReplyKey(m.ID)
	case *wire.Prepare:
		return groupKey(m.Group.Name)
	}
	return ""
}

// controlReplyKey returns the key of the reply to a ControlRequest. The reply has the request's ID, since
// it may take any time.
func controlReplyKey(id string) string { return "ControlReply " + id }

// addRequest counts a request.
func (o requestTable) addRequest(key string) {
	q := o[key]
	if q == nil {
		q = new(openRequests)
		o[key] = q
	}
	q.open++
}

// takeReply closes a request. It returns nil if the reply is for an abandoned request. Among several
// requests with the same key, any reply serves the one that is still waited for. Replies about a group are
// different: they come in the order of their requests.
func (o requestTable) takeReply(m wire.Message, key string) (wire.Message, error) {
	q := o[key]
	if q == nil {
		return nil, errNotAsked
	}
	abandoned := q.abandoned == q.open || q.abandoned > 0 && strings.HasPrefix(key, groupKey(""))
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

// abandon notes that nobody waits any more for the reply to one request.
func (o requestTable) abandon(key string) {
	if q := o[key]; q != nil && q.abandoned < q.open {
		q.abandoned++
	}
}

// abandonAll abandons all open requests with one key.
func (o requestTable) abandonAll(key string) {
	if q := o[key]; q != nil {
		q.abandoned = q.open
	}
}

// maxControlRate is how many ControlRequests a node may send in a second. Its helper passes on one at a
// time for each authorized user.
const maxControlRate = 100

// checkControl checks a user's request to the job (survive.md SV-25). The node must run ranks of the job,
// or have done so in the attempt before. It sends one at a time.
func (v *validator) checkControl(m *wire.ControlRequest) (wire.Message, error) {
	switch {
	case v.progress.groupsStarted == 0 && !v.progress.hasPredecessor:
		return nil, errEarly(m)
	case v.progress.controlOpen:
		return nil, violation("it sent a ControlRequest before the last one was answered")
	case m.ID == "" || m.Ledger != "":
		return nil, errValue(m, "ID", m.ID)
	case v.controlRate.allow(v.now(), m) == nil:
		return nil, violation("it sent more than %d ControlRequests in a second", maxControlRate)
	}
	admitted, err := v.unlessEnding(m)
	if v.progress.groupsStarted > 0 {
		admitted, err = v.unlessDrained(admitted, err)
	}
	if admitted != nil {
		v.progress.controlOpen = true
	}
	return admitted, err
}

// rankRequests counts the NameRequest, Spawn and similar requests of a node's ranks.
type rankRequests struct {
	lastID     int
	unanswered int // requests that have no reply yet
}

// maxUnanswered is how many requests of its ranks a node may have open.
const maxUnanswered = 64

// checkNext checks that the ID of a request is higher than the last one, and that not too many are open.
func (r *rankRequests) checkNext(m wire.Message, id int) error {
	switch {
	case id <= r.lastID:
		return errValue(m, "ID", id)
	case r.unanswered >= maxUnanswered:
		return violation("it sent %d requests at once", maxUnanswered+1)
	}
	r.lastID = id
	return nil
}
