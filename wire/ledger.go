package wire

import (
	"remshell/job"
)

/*
What is asked about other jobs: by --jobs, --kill and their like, of a helper that has no ranks.

	mpiexec                                      helper
	   | ListLedger ------------------------------>
	   | <---------------------------- LedgerListed   claims, tickets, what ranks are doing
	   | SignalJob ------------------------------->
	   | <----------------------------- JobSignaled   how many ranks got the signal
	   | Evict ----------------------------------->
	   | <--------------------------------- Evicted   what was done, or why nothing
*/

// ListLedger asks for all that the ledger holds.
// With Job also what the ranks of that job, of the user UID, are doing on the node. Listed has Most bytes at most; 0: as many as it may.
type ListLedger struct {
	Ledger   string
	Job      job.ID
	UID      int
	MaxBytes int
}

func (m *ListLedger) fields(c *codec) {
	c.text(&m.Ledger, pathLength)
	c.word((*string)(&m.Job), "job")
	c.num(&m.UID, uidRange)
	c.num(&m.MaxBytes, sizeRange)
}

// LedgerListed answers List. With Err the ledger cannot be read; with Notice entries of some user are left out. Where is the directory and the
// number under which this node's entries are in it (TRUST-20); UID is the user whose helper it is.
type LedgerListed struct {
	Path    string
	UID     int
	Claims  []job.Claim
	Tickets []job.Ticket
	States  []job.RankState
	Err     string
	Notice  string
}

func (m *LedgerListed) fields(c *codec) {
	c.text(&m.Path, pathLength)
	c.num(&m.UID, uidRange)
	list(c, &m.Claims, length{"claims", maxEntries}, (*codec).claim)
	list(c, &m.Tickets, length{"tickets", maxEntries - len(m.Claims)}, (*codec).ticket)
	list(c, &m.States, length{"ranks", maxOnNode}, (*codec).rankState)
	c.sentence(&m.Err, "error")
	c.sentence(&m.Notice, "notice")
}

// SignalJob sends a signal to the ranks that a job of the user UID has on the node, if the sender may.
type SignalJob struct {
	Ledger string
	Job    job.ID
	UID    int
	Signal int
}

func (m *SignalJob) fields(c *codec) {
	c.text(&m.Ledger, pathLength)
	c.word((*string)(&m.Job), "job")
	c.num(&m.UID, uidRange)
	c.num(&m.Signal, signalRange)
}

// JobSignaled answers Alert: how many ranks got the signal, or why none did.
type JobSignaled struct {
	Ranks int
	Err   string
}

func (m *JobSignaled) fields(c *codec) {
	c.num(&m.Ranks, sizeRange)
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
	c.text(&m.Ledger, pathLength)
	c.word((*string)(&m.Job), "job")
	c.num(&m.UID, uidRange)
	c.boolean(&m.Processes)
}

// Evicted answers Evict: what was done, or why nothing was. Left says that something is
// still held.
type Evicted struct {
	Done       []string
	Incomplete bool
	Err        string
}

func (m *Evicted) fields(c *codec) {
	list(c, &m.Done, length{"deeds", maxEntries}, func(c *codec, p *string) { c.sentence(p, "deed") })
	c.boolean(&m.Incomplete)
	c.sentence(&m.Err, "error")
}
