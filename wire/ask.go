package wire

import (
	"remshell/job"
)

/*
A word with a job that runs (survive.md 7). Who asks has a helper of his own on a node of the job;
that shows the ask in the ledger, where the helper of the job finds it.

	mpiexec, asking                              helper
	   | Ask ------------------------------------->   shown in the ledger
	   | <---------------------------------- Answer   that of the job, when it is final

	mpiexec of the job                           helper
	   | <------------------------------------- Ask   of somebody who may
	   | Answer ---------------------------------->   taken; done, or refused
*/

// Ask is of mpiexec one that its helper shows, and of a helper one that it has found: then it has
// the right that the asker has, and a helper has one open at a time. Its ID is that of the Answer.
type Ask struct {
	Ledger string
	ID     string
	Right  job.Right
	Ask    job.Ask
}

func (m *Ask) fields(c *codec) {
	c.text(&m.Ledger, length{"path", maxSentence})
	c.text(&m.ID, aMark)
	c.word((*string)(&m.Right), "right")
	c.word((*string)(&m.Ask.Job), "job")
	c.num(&m.Ask.Owner, aUIDOrAny)
	c.num(&m.Ask.UID, aUID)
	c.word(&m.Ask.User, "user")
	c.word((*string)(&m.Ask.Verb), "verb")
	c.texts(&m.Ask.Args, length{"words", 64}, aName)
	c.moment(&m.Ask.Since, "time")
}

// Answer answers Ask. Without a State nobody is to be told anything: another helper of the job is.
type Answer struct {
	ID    string
	State job.AnswerState
	Text  string
	Ranks []job.PlacedState
}

func (m *Answer) fields(c *codec) {
	c.text(&m.ID, aMark)
	c.word((*string)(&m.State), "state")
	c.sentence(&m.Text, "text")
	list(c, &m.Ranks, length{"ranks", maxOnNode}, (*codec).placedState)
}

func (c *codec) placedState(s *job.PlacedState) {
	c.word(&s.Node, "node")
	c.rankState(&s.RankState)
}

// Fit leaves out the ranks that cannot be, and those for which there is no room.
func (m *Answer) Fit() {
	left, ranks := kindOf(m).Most-2*maxSentence, maxOnNode
	m.Ranks = fit(m.Ranks, (*codec).placedState, &left, &ranks)
}
