package node

import (
	"strings"

	"remshell/wire"
)

// This file is what a validator knows of questions: ours to the helper, and those of its ranks
// to us (TRUST-4).

// questions are those of one kind that were put and not answered.
type questions struct {
	open  int
	given int // of these, those that nobody waits for any more
}

// openQuestions are ours, by the kind of the answer, and the group or the question where it names one.
type openQuestions map[string]*questions

// answerTo is what a question is answered by; empty: it is no question.
func answerTo(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Gate:
		return "Gated"
	case *wire.Survey:
		return "Surveyed"
	case *wire.Enqueue, *wire.Pass:
		return "Queued"
	case *wire.List:
		return "Listed"
	case *wire.Alert:
		return "Alerted"
	case *wire.Evict:
		return "Evicted"
	case *wire.Lay:
		return "Laid"
	case *wire.Seek:
		return "Sought"
	case *wire.Examine:
		return "Examined"
	case *wire.Listen:
		return "Listening"
	case *wire.ProbePeers:
		return "PeersProbed"
	case *wire.Inspect:
		return "States"
	case *wire.Renew:
		return "Renewed"
	case *wire.Ask:
		return answerKey(m.ID)
	case *wire.Prepare:
		return groupKey(m.Group.Name)
	}
	return ""
}

// answerKey is the key of what is asked of jobs: an answer names its question, which may take as long as it likes.
func answerKey(id string) string { return "Answer " + id }

// ask notes a question.
func (o openQuestions) ask(key string) {
	q := o[key]
	if q == nil {
		q = new(questions)
		o[key] = q
	}
	q.open++
}

// answer takes what closes a question. Nobody waits for one that was given up. Of several
// questions any answer will do for the one that waits, but for those about a group: these
// come in the order of the questions.
func (o openQuestions) answer(m wire.Message, to string) (wire.Message, error) {
	q := o[to]
	if q == nil {
		return nil, errUnasked
	}
	given := q.given == q.open || q.given > 0 && strings.HasPrefix(to, groupKey(""))
	if given {
		q.given--
	}
	if q.open--; q.open == 0 {
		delete(o, to)
	}
	if given {
		return nil, nil
	}
	return m, nil
}

// giveUp notes that nobody waits for the answer to a question any more.
func (o openQuestions) giveUp(key string) {
	if q := o[key]; q != nil && q.given < q.open {
		q.given++
	}
}

// giveUpAll is giveUp for all questions of a kind.
func (o openQuestions) giveUpAll(key string) {
	if q := o[key]; q != nil {
		q.given = q.open
	}
}

// maxAsks is how many asks a node may bring in a second: its helper takes up one of each user who is obeyed.
const maxAsks = 100

// asked hears that somebody wants something of the job (survive.md SV-25): of a node where ranks of it
// run, or did in the attempt before, one at a time.
func (v *validator) asked(m *wire.Ask) (wire.Message, error) {
	switch {
	case v.course.starts == 0 && !v.course.again:
		return nil, errEarly(m)
	case v.course.asking:
		return nil, violation("it sent an Ask before the last one was answered")
	case m.ID == "" || m.Ledger != "":
		return nil, errValue(m, "ID", m.ID)
	case v.asks.pass(v.now(), m) == nil:
		return nil, violation("it sent more than %d Asks in a second", maxAsks)
	}
	admitted, err := v.unlessEnding(m)
	if v.course.starts > 0 {
		admitted, err = v.unlessGone(admitted, err)
	}
	if admitted != nil {
		v.course.asking = true
	}
	return admitted, err
}

// rankRequests are Name, Spawn and their like.
type rankRequests struct {
	lastID  int
	unheard int // without an answer
}

// unanswered is how many requests of its ranks a node may have under way.
const unanswered = 64

// next sees that a request has the next number, and that there are not too many.
func (r *rankRequests) next(m wire.Message, id int) error {
	switch {
	case id <= r.lastID:
		return errValue(m, "ID", id)
	case r.unheard >= unanswered:
		return violation("it sent %d requests at once", unanswered+1)
	}
	r.lastID = id
	return nil
}
