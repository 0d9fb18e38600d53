package wire

import (
	"remshell/job"
)

/*
A word with a job that runs (survive.md 7). Who asks has a helper of his own on a node of the job;
that shows the ask in the ledger, where the helper of the job finds it.

	mpiexec, asking                              helper
	   | ControlRequest -------------------------->   shown in the ledger
	   | <---------------------------- ControlReply   that of the job, when it is final

	mpiexec of the job                           helper
	   | <-------------------------- ControlRequest   of somebody who may
	   | ControlReply ---------------------------->   taken; done, or refused
*/

// ControlRequest is of mpiexec one that its helper shows, and of a helper one that it has found: then it has
// the right that the asker has, and a helper has one open at a time. Its ID is that of the Answer.
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

// ControlReply answers Ask. Without a State nobody is to be told anything: another helper of the job is.
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

// Truncate leaves out the ranks that cannot be, and those for which there is no room.
func (m *ControlReply) Truncate() {
	left, ranks := kindOf(m).MaxBody-2*maxSentence, maxOnNode
	m.Ranks = sendable(m.Ranks, (*codec).nodeRankState, &left, &ranks)
}
