package wire

import (
	"remshell/job"
)

/*
Messages about other jobs, for --jobs, --kill and similar options. The helper has no ranks.

	mpiexec                                      helper
	   | ListLedger ------------------------------>
	   | <---------------------------- LedgerListed   claims, tickets, states of ranks
	   | SignalJob ------------------------------->
	   | <----------------------------- JobSignaled   number of ranks signaled
	   | Evict ----------------------------------->
	   | <--------------------------------- Evicted   what was done, or the error
*/

// ListLedger requests the contents of the ledger. If Job is set, the reply also has the states of the ranks that this job of
// user UID has on the node. MaxBytes limits the reply; 0: the largest size allowed.
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

// LedgerListed answers ListLedger. If Err is set, the ledger cannot be read. If Notice is set, entries of some users were
// skipped. Path is the ledger directory and the number under which this node's entries are in it (TRUST-20). UID is the user
// of the helper.
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

// SignalJob sends a signal to the ranks that a job of user UID has on the node, if the sender is allowed to.
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

// JobSignaled answers SignalJob with the number of ranks signaled, or the reason why none was.
type JobSignaled struct {
	Ranks int
	Err   string
}

func (m *JobSignaled) fields(c *codec) {
	c.num(&m.Ranks, sizeRange)
	c.sentence(&m.Err, "error")
}

// Evict ends the processes that hold the claims and tickets of a job of user UID, and removes these (TRUST-19). If Processes
// is set, the job belongs to the helper's own user, and all processes marked with the job are ended too (survive.md SV-3).
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

// Evicted answers Evict with a list of what was done, or an error. Incomplete means that some claims or tickets
// could not be removed.
type Evicted struct {
	Done       []string
	Incomplete bool
	Err        string
}

func (m *Evicted) fields(c *codec) {
	list(c, &m.Done, length{"actions", maxEntries}, func(c *codec, p *string) { c.sentence(p, "action") })
	c.boolean(&m.Incomplete)
	c.sentence(&m.Err, "error")
}
