package wire

import (
	"time"

	"remshell/job"
)

/*
The decision lock of the queue host lets one request at a time decide where its ranks go. The others wait for it.

	mpiexec                                      helper
	   | LockDecision ---------------------------->
	   | <-------------------------- DecisionLocked   this request may decide; queue length
	   | UnlockDecision -------------------------->   others may decide
	   | Enqueue --------------------------------->
	   | <--------------------------- QueuePosition   whenever the position changes
	   | <----------------- Ping ----------------->   the sender is alive; also at any other time
	   | Overtake -------------------------------->   pass a user's requests, or one that never fits
	   | <--------------------------- QueuePosition
	   | WatchClaims ----------------------------->   from the head of the queue, to all usable nodes
	   | <--------------------------- ClaimsChanged   a claim was made or removed
	   | Dequeue --------------------------------->

After ClaimsChanged, mpiexec requests the decision lock again. The helper of the queue host keeps the place in the queue as
long as the connection lasts and Pings arrive.
*/

// A request that waits sends Ping every PingEvery. If none arrives for PingTimeout, its
// place in the queue is lost.
const (
	PingEvery   = 5 * time.Second
	PingTimeout = 15 * time.Second

	// HeartbeatEvery is how often a helper that a batch system's launcher started sends Ping to mpiexec.
	HeartbeatEvery = 10 * time.Second
)

// LockDecision requests the decision lock of the queue: only its holder decides where ranks go
// (placement.md 6.4). It goes to the helper of the queue host.
// If LocalOnly is set, the job runs on this node only. Then no lock is taken, and the answer only
// gives the length of the queue.
type LockDecision struct {
	AnsweredBy[*DecisionLocked]

	Ledger    string
	LocalOnly bool
}

func (m *LockDecision) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.Bool(&m.LocalOnly)
}

// DecisionLocked grants the decision lock. Ahead is the number of requests in the queue before this
// one. If Notice is set, the lock could not be taken, and others may decide at the same time.
type DecisionLocked struct {
	Ahead  int
	Notice string
}

func (m *DecisionLocked) Fields(c *Codec) {
	c.Num(&m.Ahead, SizeRange)
	c.Sentence(&m.Notice, "notice")
}

// UnlockDecision releases the decision lock.
type UnlockDecision struct{}

func (m *UnlockDecision) Fields(*Codec) {}

// Enqueue puts a request into the queue. It goes to the helper of the queue host. The place is
// lost when the connection ends, or when no Ping arrives for PingTimeout.
type Enqueue struct {
	AnsweredBy[*QueuePosition]

	Ledger string
	Ticket job.Ticket
}

func (m *Enqueue) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.ticket(&m.Ticket)
}

// QueuePosition reports the number of requests ahead, and of all in the queue. If Err is set, the request has
// no place or has lost it. If EvictedBy is set, that user has removed the request from the queue.
type QueuePosition struct {
	Ahead, Total int
	Err          string
	EvictedBy    string
	Head         job.Ticket // the first of the requests ahead; zero if Ahead is 0
}

func (m *QueuePosition) Fields(c *Codec) {
	c.Num(&m.Ahead, SizeRange)
	c.Num(&m.Total, SizeRange)
	c.Sentence(&m.Err, "error")
	c.Sentence(&m.EvictedBy, "user")
	c.ticket(&m.Head)
}

// Overtake moves the request ahead of everything that a user has in the queue now (TRUST-18), or of one ticket
// of that user which can never be satisfied. It is answered by QueuePosition.
type Overtake struct {
	AnsweredBy[*QueuePosition]

	UID    int
	Number int64 // number of that ticket; 0: all tickets of the user
}

func (m *Overtake) Fields(c *Codec) {
	c.Num(&m.UID, uidRange)
	c.Num64(&m.Number, ticketRange)
}

// Dequeue gives up the place in the queue.
type Dequeue struct{}

func (m *Dequeue) Fields(*Codec) {}

// WatchClaims requests ClaimsChanged whenever a claim on the node is made or removed.
type WatchClaims struct{ Ledger string }

func (m *WatchClaims) Fields(c *Codec) { c.Text(&m.Ledger, pathLength) }

// ClaimsChanged is sent after WatchClaims, once per change.
type ClaimsChanged struct{}

func (m *ClaimsChanged) Fields(*Codec) {}

// Ping has no answer. It shows a helper that keeps a place in the queue that mpiexec still
// waits (a stopped mpiexec must not stop all others). From a helper it makes sure that a dead connection is
// noticed.
type Ping struct{}

func (m *Ping) Fields(*Codec) {}
