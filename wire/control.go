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

// ControlRequest is a request to a running job. From mpiexec it is a request that the helper writes into the ledger.
// From a helper it is one that it found there and authorized by Role. A helper has at most one open at a time.
// ID is repeated in the ControlReply.
type ControlRequest struct {
	Ledger  string
	ID      string
	Role    job.Role
	Request job.ControlRequest
}

func (m *ControlRequest) fields(c *codec) {
	c.text(&m.Ledger, length{"path", maxSentence})
	c.text(&m.ID, markLength)
	c.word((*string)(&m.Role), "right")
	c.word((*string)(&m.Request.Job), "job")
	c.num(&m.Request.Owner, uidOrAnyRange)
	c.num(&m.Request.UID, uidRange)
	c.word(&m.Request.User, "user")
	c.word((*string)(&m.Request.Verb), "verb")
	c.texts(&m.Request.Args, length{"words", 64}, nameLength)
	c.timestamp(&m.Request.Since, "time")
}

// ControlReply answers ControlRequest. If State is empty, the helper reports nothing: another helper of the job reports.
type ControlReply struct {
	ID    string
	State job.ReplyState
	Text  string
	Ranks []job.NodeRankState
}

func (m *ControlReply) fields(c *codec) {
	c.text(&m.ID, markLength)
	c.word((*string)(&m.State), "state")
	c.sentence(&m.Text, "text")
	list(c, &m.Ranks, length{"ranks", maxOnNode}, (*codec).nodeRankState)
}

func (c *codec) nodeRankState(s *job.NodeRankState) {
	c.word(&s.Node, "node")
	c.rankState(&s.RankState)
}

// Truncate removes ranks that cannot be encoded, and those that do not fit into the message.
func (m *ControlReply) Truncate() {
	left, ranks := kindOf(m).MaxBody-2*maxSentence, maxOnNode
	m.Ranks = sendable(m.Ranks, (*codec).nodeRankState, &left, &ranks)
}
