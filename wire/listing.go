package wire

import (
	"remshell/job"
)

/*
What is asked about other jobs: by --jobs, --kill and their like, of a helper that has no ranks.

	mpiexec                                      helper
	   | List ------------------------------------>
	   | <---------------------------------- Listed   claims, tickets, what ranks are doing
	   | Alert ----------------------------------->
	   | <--------------------------------- Alerted   how many ranks got the signal
	   | Evict ----------------------------------->
	   | <--------------------------------- Evicted   what was done, or why nothing
*/

// List asks for all that the ledger holds.
// With Job also what the ranks of that job, of the user UID, are doing on the node. Listed has Most bytes at most; 0: as many as it may.
type List struct {
	Ledger string
	Job    job.ID
	UID    int
	Most   int
}

func (m *List) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Job), "job")
	c.num(&m.UID, aUID)
	c.num(&m.Most, aSize)
}

// Listed answers List. With Err the ledger cannot be read; with Notice entries of some user are left out. Where is the directory and the
// number under which this node's entries are in it (TRUST-20); UID is the user whose helper it is.
type Listed struct {
	Where   string
	UID     int
	Claims  []job.Claim
	Tickets []job.Ticket
	States  []job.RankState
	Err     string
	Notice  string
}

func (m *Listed) fields(c *codec) {
	c.text(&m.Where, aPath)
	c.num(&m.UID, aUID)
	list(c, &m.Claims, length{"claims", maxEntries}, (*codec).claim)
	list(c, &m.Tickets, length{"tickets", maxEntries - len(m.Claims)}, (*codec).ticket)
	list(c, &m.States, length{"ranks", maxOnNode}, (*codec).rankState)
	c.sentence(&m.Err, "error")
	c.sentence(&m.Notice, "notice")
}

// Alert sends a signal to the ranks that a job of the user UID has on the node, if the sender may.
type Alert struct {
	Ledger string
	Job    job.ID
	UID    int
	Number int
}

func (m *Alert) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Job), "job")
	c.num(&m.UID, aUID)
	c.num(&m.Number, aSignal)
}

// Alerted answers Alert: how many ranks got the signal, or why none did.
type Alerted struct {
	Ranks int
	Err   string
}

func (m *Alerted) fields(c *codec) {
	c.num(&m.Ranks, aSize)
	c.sentence(&m.Err, "error")
}

// Evict ends the holders of the claims and tickets that a job of the user UID has, and removes those (TRUST-19). With Processes
// it is a job of the helper's own user, and all that carries its mark is ended as well (survive.md SV-3).
type Evict struct {
	Ledger    string
	Job       job.ID
	UID       int
	Processes bool
}

func (m *Evict) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.word((*string)(&m.Job), "job")
	c.num(&m.UID, aUID)
	c.flag(&m.Processes)
}

// Evicted answers Evict: what was done, or why nothing was. Left says that something is
// still held.
type Evicted struct {
	Done []string
	Left bool
	Err  string
}

func (m *Evicted) fields(c *codec) {
	list(c, &m.Done, length{"deeds", maxEntries}, func(c *codec, p *string) { c.sentence(p, "deed") })
	c.flag(&m.Left)
	c.sentence(&m.Err, "error")
}
