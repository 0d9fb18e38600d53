package node

import (
	"strings"

	"remshell/wire"
)

// This file is what a validator knows of questions: ours to the helper, and those of its ranks
// to us (TRUST-4).

// openQuestion are those of one kind that were put and not answered.
type openQuestion struct {
	open      int
	abandoned int // of these, those that nobody waits for any more
}

// requestTable are ours, by the kind of the answer, and the group or the question where it names one.
type requestTable map[string]*openQuestion

// replyKeyOf is what a question is answered by; empty: it is no question.
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

// controlReplyKey is the key of what is asked of jobs: an answer names its question, which may take as long as it likes.
func controlReplyKey(id string) string { return "Answer " + id }

// addRequest notes a question.
func (o requestTable) addRequest(key string) {
	q := o[key]
	if q == nil {
		q = new(openQuestion)
		o[key] = q
	}
	q.open++
}

// takeReply takes what closes a question. Nobody waits for one that was given up. Of several
// questions any answer will do for the one that waits, but for those about a group: these
// come in the order of the questions.
func (o requestTable) takeReply(m wire.Message, to string) (wire.Message, error) {
	q := o[to]
	if q == nil {
		return nil, errNotAsked
	}
	given := q.abandoned == q.open || q.abandoned > 0 && strings.HasPrefix(to, groupKey(""))
	if given {
		q.abandoned--
	}
	if q.open--; q.open == 0 {
		delete(o, to)
	}
	if given {
		return nil, nil
	}
	return m, nil
}

// abandon notes that nobody waits for the answer to a question any more.
func (o requestTable) abandon(key string) {
	if q := o[key]; q != nil && q.abandoned < q.open {
		q.abandoned++
	}
}

// abandonAll is giveUp for all questions of a kind.
func (o requestTable) abandonAll(key string) {
	if q := o[key]; q != nil {
		q.abandoned = q.open
	}
}

// maxControlRate is how many asks a node may bring in a second: its helper takes up one of each user who is obeyed.
const maxControlRate = 100

// checkControl hears that somebody wants something of the job (survive.md SV-25): of a node where ranks of it
// run, or did in the attempt before, one at a time.
func (v *validator) checkControl(m *wire.ControlRequest) (wire.Message, error) {
	switch {
	case v.progress.groupsStarted == 0 && !v.progress.hasPredecessor:
		return nil, errEarly(m)
	case v.progress.controlOpen:
		return nil, violation("it sent a ControlRequest before the last one was answered")
	case m.ID == "" || m.Ledger != "":
		return nil, errValue(m, "ID", m.ID)
	case v.controlRate.allow(v.now(), m) == nil:
		return nil, violation("it sent more than %d Asks in a second", maxControlRate)
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

// rankRequests are Name, Spawn and their like.
type rankRequests struct {
	lastID     int
	unanswered int // without an answer
}

// maxUnanswered is how many requests of its ranks a node may have under way.
const maxUnanswered = 64

// checkNext sees that a request has the next number, and that there are not too many.
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
