package wire

import (
	"time"

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

// ListLedger requests the claims (records of the CPUs of jobs) and tickets (places in the queue) in a node's
// ledger. If Job is set, the reply also contains the states of the ranks that this job of user UID has on the
// node. MaxBytes is the maximum size of the reply. If MaxBytes is 0, only the limit for all LedgerListed
// messages applies.
type ListLedger struct {
	AnsweredBy[*LedgerListed]

	Ledger   string
	Job      job.ID
	UID      int
	MaxBytes int
}

func (m *ListLedger) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.Word((*string)(&m.Job), "job")
	c.Num(&m.UID, uidRange)
	c.Num(&m.MaxBytes, SizeRange)
}

// LedgerListed is the reply to ListLedger. If Err is set, the helper cannot read the ledger. If Notice is set, it says
// what the reply leaves out. Path consists of the directory of the ledger and the prefix of the names of this node's
// entries in it (rule TRUST-20). UID is the user of the helper.
type LedgerListed struct {
	Path    string
	UID     int
	Claims  []job.Claim
	Tickets []job.Ticket
	States  []job.RankState
	Err     string
	Notice  string

	Settings job.NodeSettings // settings of the node, which root can change
}

func (m *LedgerListed) Fields(c *Codec) {
	c.Text(&m.Path, pathLength)
	c.Num(&m.UID, uidRange)
	List(c, &m.Claims, Length{"claims", maxEntries}, (*Codec).claim)
	List(c, &m.Tickets, Length{"tickets", maxEntries - len(m.Claims)}, (*Codec).ticket)
	List(c, &m.States, Length{"ranks", MaxOnNode}, (*Codec).RankState)
	c.Sentence(&m.Err, "error")
	c.Sentence(&m.Notice, "notice")
	c.NodeSettings(&m.Settings)
}

// NodeSettings reads or writes the settings of a node, which root can change at any time.
func (c *Codec) NodeSettings(s *job.NodeSettings) {
	c.Time(&s.Drain.Since, "time")
	c.HumanText(&s.Drain.Reason, Length{"reason", job.MaxReason})
	c.members(&s.Allow.Users)
	c.members(&s.Allow.Groups)
	most := -1
	if s.Allow.MaxProcs != nil {
		most = *s.Allow.MaxProcs
	}
	c.Num(&most, Range{"maxproc", -1, job.MaxAllowedMost})
	if c.Reading && most >= 0 {
		s.Allow.MaxProcs = &most
	}
	for _, length := range []*time.Duration{&s.Slice.Length, &s.Slice.Before} {
		c.Num64((*int64)(length), sliceRange)
	}
	c.Time(&s.Slice.From, "time")
}

// members reads or writes a list of names of users or groups.
func (c *Codec) members(p *[]string) {
	List(c, p, Length{"names", job.MaxMembers}, func(c *Codec, p *string) { c.HumanText(p, Length{"name", job.MaxMemberName}) })
}

// SignalJob asks the helper to send a signal to the ranks that a job of user UID has on the node. The helper checks
// whether the sender is allowed to signal these ranks.
type SignalJob struct {
	AnsweredBy[*JobSignaled]

	Ledger string
	Job    job.ID
	UID    int
	Signal int
}

func (m *SignalJob) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.Word((*string)(&m.Job), "job")
	c.Num(&m.UID, uidRange)
	c.Num(&m.Signal, SignalRange)
}

// JobSignaled is the reply to SignalJob. It contains the number of ranks that were signaled, or the reason why none
// were.
type JobSignaled struct {
	Ranks int
	Err   string
}

func (m *JobSignaled) Fields(c *Codec) {
	c.Num(&m.Ranks, SizeRange)
	c.Sentence(&m.Err, "error")
}

// Evict asks the helper to end the processes that hold the claims and tickets of a job of user UID. The helper
// also removes these claims and tickets (rule TRUST-19). If Processes is set, the job belongs to the helper's
// own user. The helper then also ends all processes that carry the job's mark (survive.md SV-3).
type Evict struct {
	AnsweredBy[*Evicted]

	Ledger    string
	Job       job.ID
	UID       int
	Processes bool
}

func (m *Evict) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.Word((*string)(&m.Job), "job")
	c.Num(&m.UID, uidRange)
	c.Bool(&m.Processes)
}

// Evicted is the reply to Evict. It lists what the helper did, or contains an error. Incomplete is true if
// some claims or tickets could not be removed.
type Evicted struct {
	Done       []string
	Incomplete bool
	Err        string
}

func (m *Evicted) Fields(c *Codec) {
	List(c, &m.Done, Length{"actions", maxEntries}, func(c *Codec, p *string) { c.Sentence(p, "action") })
	c.Bool(&m.Incomplete)
	c.Sentence(&m.Err, "error")
}
