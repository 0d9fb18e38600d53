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

After ClaimsChanged, mpiexec requests the decision lock again. The helper of the queue host keeps the place in the
queue as long as the connection lasts and Pings arrive.
*/

// These are the interval and the timeout of Ping messages in the job queue. An mpiexec that waits in the queue
// sends a Ping to its queue host every PingEvery. If the helper on the queue host receives no Ping for
// PingTimeout, it removes the request from the queue.
const (
	PingEvery   = 5 * time.Second
	PingTimeout = 15 * time.Second

	// HeartbeatEvery is the interval at which a helper that a batch system has started sends Ping to mpiexec.
	HeartbeatEvery = 10 * time.Second
)

// LockDecision requests the decision lock of the job queue. Only the holder of the lock may plan and claim
// (placement.md 6.4). mpiexec sends LockDecision to the helper on the queue host. If LocalOnly is set, the job
// runs on this node only. Then the helper takes no lock, and its reply only gives the length of the queue.
type LockDecision struct {
	AnsweredBy[*DecisionLocked]

	Ledger    string
	LocalOnly bool
}

func (m *LockDecision) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.Bool(&m.LocalOnly)
}

// DecisionLocked is the reply to LockDecision. mpiexec then holds the decision lock, unless LocalOnly was set or Notice
// is set. Notice says why the helper could not take the lock; other jobs may then be planned at the same time. Ahead is
// the number of requests in the queue before the request of this mpiexec.
type DecisionLocked struct {
	Ahead  int
	Notice string
}

func (m *DecisionLocked) Fields(c *Codec) {
	c.Num(&m.Ahead, SizeRange)
	c.Sentence(&m.Notice, "notice")
}

// UnlockDecision releases the decision lock, which ensures that one job at a time is planned.
type UnlockDecision struct{}

func (m *UnlockDecision) Fields(*Codec) {}

// Enqueue adds a request to the job queue. mpiexec sends Enqueue to the helper on the queue host. The request
// leaves the queue when the connection ends, or when no Ping arrives for PingTimeout.
type Enqueue struct {
	AnsweredBy[*QueuePosition]

	Ledger string
	Ticket job.Ticket
}

func (m *Enqueue) Fields(c *Codec) {
	c.Text(&m.Ledger, pathLength)
	c.ticket(&m.Ticket)
}

// QueuePosition reports to an mpiexec how many requests are in the job queue, and how many of them are ahead of its own
// request. If Err is set, its request is no longer in the queue. If EvictedBy is set, that user has removed the
// request.
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

// Overtake moves the request of this mpiexec before all requests that the user UID has in the queue now (rule
// TRUST-18). If Number is set, Overtake moves the request only before the ticket with that number. The reply is
// QueuePosition.
type Overtake struct {
	AnsweredBy[*QueuePosition]

	UID    int
	Number int64 // number of that ticket; 0: all tickets of the user
}

func (m *Overtake) Fields(c *Codec) {
	c.Num(&m.UID, uidRange)
	c.Num64(&m.Number, ticketRange)
}

// Dequeue removes the request of this mpiexec from the queue.
type Dequeue struct{}

func (m *Dequeue) Fields(*Codec) {}

// WatchClaims asks the helper to send ClaimsChanged whenever a claim on the node is made or removed.
type WatchClaims struct{ Ledger string }

func (m *WatchClaims) Fields(c *Codec) { c.Text(&m.Ledger, pathLength) }

// ClaimsChanged reports that a claim on the node was made or removed. A helper sends it only if mpiexec has sent
// WatchClaims.
type ClaimsChanged struct{}

func (m *ClaimsChanged) Fields(*Codec) {}

// Ping has no reply. In the queue, a Ping from mpiexec shows the helper that mpiexec still waits. A stopped
// mpiexec sends no Ping, so that it does not block the other requests. A helper sends a Ping so that it notices
// a dead connection.
type Ping struct{}

func (m *Ping) Fields(*Codec) {}
