package wire

import (
	"time"

	"remshell/job"
)

/*
One request at a time decides, behind the gate of the queue's host; the others wait there.

	mpiexec                                      helper
	   | Gate ------------------------------------>
	   | <----------------------------------- Gated   our turn; who waits before us
	   | Ungate ---------------------------------->   others may decide
	   | Enqueue --------------------------------->
	   | <---------------------------------- Queued   whenever the position changes
	   | <----------------- Ping ----------------->   somebody is there: also at any other time
	   | Pass ------------------------------------>   ahead of a user's, or of one that never fits
	   | <---------------------------------- Queued
	   | Watch ----------------------------------->   at the head, to all nodes that could be used
	   | <--------------------------------- Changed   a claim came or went
	   | Dequeue --------------------------------->

Who hears Changed asks for the gate again. The helper of the queue's host keeps the place as
long as the connection lasts, and Ping comes.
*/

// A request that waits says Ping every PingEvery; without any for PingPatience its
// place is lost.
const (
	PingEvery    = 5 * time.Second
	PingPatience = 15 * time.Second

	// BeatEvery is how often a helper that a batch system's starter has started says Ping to mpiexec.
	BeatEvery = 10 * time.Second
)

// Gate asks for the gate of the queue, behind which one request at a time decides
// (placement.md 6.4). The helper is that of the queue host.
// With Alone the job is this node's alone: then nobody needs to decide one after
// the other, and the answer only tells who waits.
type Gate struct {
	Ledger string
	Alone  bool
}

func (m *Gate) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.flag(&m.Alone)
}

// Gated says that it is our turn to decide, and how many requests wait before this
// one. With Notice the gate was not to be had, and the decision is not alone.
type Gated struct {
	Ahead  int
	Notice string
}

func (m *Gated) fields(c *codec) {
	c.num(&m.Ahead, aSize)
	c.sentence(&m.Notice, "notice")
}

// Ungate lets the gate go.
type Ungate struct{}

func (m *Ungate) fields(*codec) {}

// Enqueue puts a request into the queue, whose host the helper's is. The place is
// lost when the connection ends, or Ping does not come for PingPatience.
type Enqueue struct {
	Ledger string
	Ticket job.Ticket
}

func (m *Enqueue) fields(c *codec) {
	c.text(&m.Ledger, aPath)
	c.ticket(&m.Ticket)
}

// Queued tells the position: requests ahead, and all that wait. With Err there is
// no place, or no longer. With Evicted that user has taken the request out of the queue.
type Queued struct {
	Ahead, Total int
	Err          string
	Evicted      string
	Head         job.Ticket // the first of those ahead, if there are any
}

func (m *Queued) fields(c *codec) {
	c.num(&m.Ahead, aSize)
	c.num(&m.Total, aSize)
	c.sentence(&m.Err, "error")
	c.sentence(&m.Evicted, "user")
	c.ticket(&m.Head)
}

// Pass goes ahead of all that a user has in the queue now (TRUST-18), or of one ticket
// of his that can never be satisfied. The answer is Queued.
type Pass struct {
	UID    int
	Number int64 // of that ticket; 0: all
}

func (m *Pass) fields(c *codec) {
	c.num(&m.UID, aUID)
	c.num64(&m.Number, aTicket)
}

// Dequeue gives the place up.
type Dequeue struct{}

func (m *Dequeue) fields(*codec) {}

// Watch asks for Changed whenever a claim on the node comes or goes.
type Watch struct{ Ledger string }

func (m *Watch) fields(c *codec) { c.text(&m.Ledger, aPath) }

// Changed answers Watch, again and again.
type Changed struct{}

func (m *Changed) fields(*codec) {}

// Ping has no answer. It tells a helper that keeps a place in the queue that somebody still
// waits there (a stopped mpiexec must not stop all others), and from a helper it has the link
// carry something, so that a dead one is noticed.
type Ping struct{}

func (m *Ping) fields(*codec) {}
