package wire

import (
	"time"

	"remshell/job"
)

/*
One request at a time decides, behind the gate of the queue's host; the others wait there.

	mpiexec                                      helper
	   | LockDecision ---------------------------->
	   | <-------------------------- DecisionLocked   our turn; who waits before us
	   | UnlockDecision -------------------------->   others may decide
	   | Enqueue --------------------------------->
	   | <--------------------------- QueuePosition   whenever the position changes
	   | <----------------- Ping ----------------->   somebody is there: also at any other time
	   | Overtake -------------------------------->   ahead of a user's, or of one that never fits
	   | <--------------------------- QueuePosition
	   | WatchClaims ----------------------------->   at the head, to all nodes that could be used
	   | <--------------------------- ClaimsChanged   a claim came or went
	   | Dequeue --------------------------------->

Who hears Changed asks for the gate again. The helper of the queue's host keeps the place as
long as the connection lasts, and Ping comes.
*/

// A request that waits says Ping every PingEvery; without any for PingPatience its
// place is lost.
const (
	PingEvery   = 5 * time.Second
	PingTimeout = 15 * time.Second

	// HeartbeatEvery is how often a helper that a batch system's starter has started says Ping to mpiexec.
	HeartbeatEvery = 10 * time.Second
)

// LockDecision asks for the gate of the queue, behind which one request at a time decides
// (placement.md 6.4). The helper is that of the queue host.
// With Alone the job is this node's alone: then nobody needs to decide one after
// the other, and the answer only tells who waits.
type LockDecision struct {
	Ledger    string
	LocalOnly bool
}

func (m *LockDecision) fields(c *codec) {
	c.text(&m.Ledger, pathLength)
	c.boolean(&m.LocalOnly)
}

// DecisionLocked says that it is our turn to decide, and how many requests wait before this
// one. With Notice the gate was not to be had, and the decision is not alone.
type DecisionLocked struct {
	Ahead  int
	Notice string
}

func (m *DecisionLocked) fields(c *codec) {
	c.num(&m.Ahead, sizeRange)
	c.sentence(&m.Notice, "notice")
}

// UnlockDecision lets the gate go.
type UnlockDecision struct{}

func (m *UnlockDecision) fields(*codec) {}

// Enqueue puts a request into the queue, whose host the helper's is. The place is
// lost when the connection ends, or Ping does not come for PingPatience.
type Enqueue struct {
	Ledger string
	Ticket job.Ticket
}

func (m *Enqueue) fields(c *codec) {
	c.text(&m.Ledger, pathLength)
	c.ticket(&m.Ticket)
}

// QueuePosition tells the position: requests ahead, and all that wait. With Err there is
// no place, or no longer. With Evicted that user has taken the request out of the queue.
type QueuePosition struct {
	Ahead, Total int
	Err          string
	EvictedBy    string
	Head         job.Ticket // the first of those ahead, if there are any
}

func (m *QueuePosition) fields(c *codec) {
	c.num(&m.Ahead, sizeRange)
	c.num(&m.Total, sizeRange)
	c.sentence(&m.Err, "error")
	c.sentence(&m.EvictedBy, "user")
	c.ticket(&m.Head)
}

// Overtake goes ahead of all that a user has in the queue now (TRUST-18), or of one ticket
// of his that can never be satisfied. The answer is Queued.
type Overtake struct {
	UID    int
	Number int64 // of that ticket; 0: all
}

func (m *Overtake) fields(c *codec) {
	c.num(&m.UID, uidRange)
	c.num64(&m.Number, ticketRange)
}

// Dequeue gives the place up.
type Dequeue struct{}

func (m *Dequeue) fields(*codec) {}

// WatchClaims asks for Changed whenever a claim on the node comes or goes.
type WatchClaims struct{ Ledger string }

func (m *WatchClaims) fields(c *codec) { c.text(&m.Ledger, pathLength) }

// ClaimsChanged answers Watch, again and again.
type ClaimsChanged struct{}

func (m *ClaimsChanged) fields(*codec) {}

// Ping has no answer. It tells a helper that keeps a place in the queue that somebody still
// waits there (a stopped mpiexec must not stop all others), and from a helper it has the link
// carry something, so that a dead one is noticed.
type Ping struct{}

func (m *Ping) fields(*codec) {}
