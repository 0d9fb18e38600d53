/*
Package queue stands in the queue for a request: it asks for the gate behind which one request at a time
is decided upon, and waits with a ticket until it is worth while to decide again (placement.md 6).

	request         queue host                  nodes of the request
	   | Gate ---------->|  Enter
	   |<------- Gated --|  so many are ahead
	   |   ... survey, plan, claim: package reserve ...
	   | Enqueue ------->|  KeepTurn: there is no room now
	   |<------ Queued --|  a ticket, behind the others
	   | Ungate -------->|
	   |<------ Queued --|  Wait: one of them has gone
	   |<------------------------- Changed --|  at the head: another attempt
	   | Dequeue ------->|  Leave

It holds no connections: those are its Crew's, which is how a reservation appears here, and which hands on what
hosts say (Queued, News). One goroutine, that of the reservation, owns all state.
*/
package queue

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

// A Host is one whose helper is connected. It is the Crew's: two are the same host if they are equal.
type Host interface {
	Name() string
	Definition() job.NodeDef // by which it is reached
	Send(wire.Message) error
	Lost() error // why it cannot be asked any more; nil: it can
}

// A Helpers is the helpers that a request is connected to. Those that it finds may be lost by now, unless it says otherwise.
type Helpers interface {
	// FindHost finds the host of a name that is connected, and not lost; nil: there is none.
	FindHost(name string) Host

	// FirstReached is the candidate with the lowest number that was reached; nil: none was.
	FirstReached() Host

	// OnlyThisMachine reports whether this machine is the only host.
	OnlyThisMachine() bool

	// WhyUnreached is why a host cannot be asked; nil: nobody has tried.
	WhyUnreached(name string) error

	// Hostname is what a candidate calls itself; empty: it was not reached.
	Hostname(name string) string

	// ConnectTo connects to those of some hosts that are not connected, at once. When one is, the others have
	// three seconds left. It forgets hosts that are lost.
	ConnectTo(ctx context.Context, hosts []job.NodeDef)

	// Request puts a question to a host and waits until heard reports the answer, or the host is lost, as it is when
	// it says nothing for as long as limit. An error is the end of ctx.
	Request(ctx context.Context, limit time.Duration, n Host, question wire.Message, heard func(wire.Message) bool) error

	// ReceiveEvents takes in what is said without having been asked for, as soon as something is, and at the latest at a moment.
	ReceiveEvents(ctx context.Context, until time.Time)

	// WatchClaims has the candidates tell when their claims change, and tries to reach those again that are down.
	WatchClaims(ctx context.Context, now time.Time)

	// RetryTimes is when candidates that are down are to be tried again.
	RetryTimes() []time.Time

	// DisconnectAllBut lets all hosts go but one.
	DisconnectAllBut(keep Host)

	// OthersOccupancy are the candidates with what everybody but a user holds of them, as far as they answer.
	OthersOccupancy(ctx context.Context, uid int) ([]job.Node, error)
}

// An Env is the world of a Queue.
type Env struct {
	StopTimes *node.StopTimes
	Log       zerolog.Logger
	Say       func(text string) // a line for the user
	SayOnce   func(text string) // one that is not worth telling twice
	ReplyTime time.Duration     // for a host to answer what a start asks
}

// A Queue is the queue as one request sees it: the host that keeps it, and the request's position.
type Queue struct {
	// Bypass is set where the request is from inside of another job, all of whose nodes it may use: it waits
	// behind nobody then.
	Bypass bool

	req     *job.Request // as it stands: it may change while it waits
	helpers Helpers
	env     Env

	host         Host   // whose helper keeps the queue; nil: none does
	otherHosts   []Host // the other queue hosts
	ahead        int    // requests before ours, when the gate was last asked for
	position     position
	avoidedNodes string        // nodes that the head of the queue names, and which we leave to it
	lockNotice   string        // what is wrong with the gate
	firstAttempt time.Time     // of the first attempt with nobody ahead; zero: there was none
	finished     chan struct{} // closed when the job has its place, or shall have none
	pinged       map[Host]bool // hosts that are told, now and then, that we are here
}

// New is the queue of a request, whose hosts are a crew's.
func New(req *job.Request, crew Helpers, env Env) *Queue {
	return &Queue{req: req, helpers: crew, env: env, finished: make(chan struct{}), pinged: make(map[Host]bool)}
}

// IsQueueHost reports whether a host is one of those that keep the queue.
func (q *Queue) IsQueueHost(n Host) bool {
	if q.host == n {
		return true
	}
	for _, other := range q.otherHosts {
		if other == n {
			return true
		}
	}
	return false
}

// TakeNotice is what is wrong with the gate, and the host that keeps it; empty: nothing. It is said by whoever takes it.
func (q *Queue) TakeNotice() (host, text string) {
	if q.host != nil {
		host, text = q.host.Name(), q.lockNotice
	}
	q.lockNotice = ""
	return host, text
}

// Finish is the end of the request's way to its place, whichever it was.
func (q *Queue) Finish() { close(q.finished) }

// Standing is what an attempt reckons with, as one of which the gate said that so many are ahead: how many are before
// it where it looks, and for how long none has been.
func (q *Queue) Standing(ahead int) (before int, alone time.Duration) {
	if q.avoidedNodes != "" { // what is ahead wants none of these nodes
		ahead = 0
	}
	if q.firstAttempt.IsZero() && ahead == 0 {
		q.firstAttempt = time.Now()
	}
	if !q.firstAttempt.IsZero() {
		alone = time.Since(q.firstAttempt)
	}
	return ahead, alone
}

// DecidesOrder reports whether the queue says whose turn it is, and the request does not go round it.
func (q *Queue) DecidesOrder() bool { return q.host != nil && q.avoidedNodes == "" && !q.Bypass }

// AvoidedNodes are the host names of the nodes that are left to the head of the queue.
func (q *Queue) AvoidedNodes() map[string]bool { return ticketNodes(job.Ticket{Nodes: q.avoidedNodes}) }
