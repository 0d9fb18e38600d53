package wire

import (
	"remshell/job"
)

/*
Control requests to a running job (survive.md 7). The requester has a helper of its own on a node of the job.
That helper writes the request into the ledger, where the job's helper finds it.

	mpiexec, request                              helper
	   | ControlRequest -------------------------->   written into the ledger
	   | <---------------------------- ControlReply   the job's final reply

	mpiexec of the job                           helper
	   | <-------------------------- ControlRequest   already authorized
	   | ControlReply ---------------------------->   accepted; done, or refused
*/

// ControlRequest is a user's request to a running job. The user's mpiexec sends the request to a helper of its own,
// which writes the request into the node's ledger (directory of claims). A helper of the job reads the request there.
// That helper checks whether the user is allowed to make the request (Role), and sends it to the job's mpiexec. It
// sends the next request only after it has received the reply to the previous request. The ControlReply has the same ID
// as the request.
type ControlRequest struct {
	AnsweredBy[*ControlReply]

	Ledger  string
	ID      string
	Role    job.Role
	Request job.ControlRequest
}

func (m *ControlRequest) Fields(c *Codec) {
	c.Text(&m.Ledger, Length{"path", maxSentence})
	c.Text(&m.ID, controlIDLength)
	c.Word((*string)(&m.Role), "right")
	c.Word((*string)(&m.Request.Job), "job")
	c.Num(&m.Request.Owner, uidOrAnyRange)
	c.Num(&m.Request.UID, uidRange)
	c.Word(&m.Request.User, "user")
	c.Word((*string)(&m.Request.Verb), "verb")
	c.Texts(&m.Request.Args, Length{"words", 64}, nameLength)
	c.Time(&m.Request.Since, "time")
}

// ControlReply is the reply to ControlRequest. If State is empty, this helper reports nothing to the user,
// because another helper of the job reports the result.
type ControlReply struct {
	ID    string
	State job.ReplyState
	Text  string
	Ranks []job.NodeRankState

	Stacks job.StackReport // for VerbStacks
}

func (m *ControlReply) Fields(c *Codec) {
	c.Text(&m.ID, controlIDLength)
	c.Word((*string)(&m.State), "state")
	c.Sentence(&m.Text, "text")
	List(c, &m.Ranks, Length{"ranks", MaxOnNode}, (*Codec).nodeRankState)
	c.StackReport(&m.Stacks)
}

func (c *Codec) nodeRankState(s *job.NodeRankState) {
	c.Word(&s.Node, "node")
	c.RankState(&s.RankState)
}

// Truncate removes ranks and stacks that cannot be encoded or do not fit into the message.
func (m *ControlReply) Truncate() {
	left, ranks := kindOf(m).MaxBody-2*maxSentence, MaxOnNode
	m.Ranks = sendable(m.Ranks, (*Codec).nodeRankState, &left, &ranks)
	m.Stacks = TruncateStacks(m.Stacks, left)
}
