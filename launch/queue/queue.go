/*
Package queue makes the request of a job wait in the queue (placement.md 6). Before each attempt to start the job,
it takes the decision lock, which allows one job at a time to be planned. After an attempt that has failed, it
waits, with a ticket that keeps the request's place, until another attempt is worthwhile.

	request         queue host                  nodes of the request
	   | LockDecision -->|  LockDecision
	   |<- DecisionLocked|  number of requests ahead
	   |   ... survey, plan, claim: package reserve ...
	   | Enqueue ------->|  EnqueueFailed: the ranks do not fit now
	   |<- QueuePosition |  a ticket, behind the others
	   | UnlockDecision->|  UnlockDecision
	   |<- QueuePosition |  WaitForChance: one of them has left
	   |<------------------- ClaimsChanged --|  at the head: another attempt
	   | Dequeue ------->|  Leave

The package has no connections of its own. It uses those of a reservation, which implements Helpers and passes on the
messages of hosts by calling PositionReceived and ClaimsChanged. Only the reservation's goroutine uses the state of the
package.
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

// A Host is a host with a connected helper, owned by Helpers. Two Hosts are the same host if they are
// equal (==).
type Host interface {
	Name() string
	Definition() job.NodeDef // definition with which it is reached
	Send(wire.Message) error
	Lost() error // why it cannot be used any more; nil if it can
}

// Helpers gives access to the helpers to which a request is connected. Unless its comment says otherwise, a
// method may return a Host to which the connection has been lost.
type Helpers interface {
	// FindHost returns the host with a name that is connected and not lost, or nil.
	FindHost(name string) Host

	// FirstReached returns the reached candidate with the lowest number, or nil if none was reached.
	FirstReached() Host

	// OnlyThisMachine reports whether this machine is the only host.
	OnlyThisMachine() bool

	// WhyUnreached returns why a host cannot be used. It returns nil if the host can be used, or if no connection was
	// attempted.
	WhyUnreached(name string) error

	// Hostname returns the host name that a candidate reports. It is empty if the candidate was not reached.
	Hostname(name string) string

	// ConnectTo connects to the given hosts that are not connected, all at the same time. Once one is connected, it
	// waits at most three more seconds for the others. It forgets hosts that are lost.
	ConnectTo(ctx context.Context, hosts []job.NodeDef)

	// Call sends a request to a host, and calls handle with its reply before it handles any later event. It returns
	// without a reply if the host is lost. A host that does not reply within limit counts as lost. An error is the
	// cause of ctx.
	Call(ctx context.Context, limit time.Duration, n Host, request wire.Message, handle func(reply wire.Message)) error

	// ReceiveEvents waits for events that are not replies and handles them. It returns after the first such events, or
	// at the time until if there are none.
	ReceiveEvents(ctx context.Context, until time.Time)

	// WatchClaims asks the candidates to report changes of their claims, and tries to connect to those that are
	// down.
	WatchClaims(ctx context.Context, now time.Time)

	// RetryTimes returns the times at which candidates that are down must be tried again.
	RetryTimes() []time.Time

	// DisconnectAllBut disconnects all hosts but one.
	DisconnectAllBut(host Host)

	// OthersOccupancy returns the candidates that reply, with the CPUs and GPUs that all users except uid use there.
	OthersOccupancy(ctx context.Context, uid int) ([]job.Node, error)
}

// An Env contains the services and settings that the caller provides for a Queue.
type Env struct {
	StopTimes *node.StopTimes
	Log       zerolog.Logger
	Say       func(text string) // prints a line for the user
	SayOnce   func(text string) // prints a line, unless it was printed before
	ReplyTime time.Duration     // time limit for a host's reply to a request of a start
}

// A Queue represents the queue for one request. It knows the queue host and the request's position.
type Queue struct {
	// Bypass is set if the request comes from inside another job and may use all of that job's nodes. It then
	// waits behind no other request.
	Bypass bool

	req     *job.Request // the request, which may change while it waits
	helpers Helpers
	env     Env

	host         Host   // the host whose helper keeps the queue; nil if there is none
	otherHosts   []Host // the other queue hosts
	ahead        int    // requests before this one, as of the last DecisionLocked
	position     position
	avoidedNodes string        // nodes of the head of the queue, which this request does not use; empty if it may use all
	lockNotice   string        // problem of the decision lock; empty if there is none
	firstAttempt time.Time     // time of the first attempt with no request ahead; zero if there was none
	finished     chan struct{} // closed by Finish
	pinged       map[Host]bool // hosts to which Pings are sent
}

// New returns the queue for a request. helpers gives access to the request's hosts.
func New(req *job.Request, helpers Helpers, env Env) *Queue {
	return &Queue{req: req, helpers: helpers, env: env, finished: make(chan struct{}), pinged: make(map[Host]bool)}
}

// call calls Helpers.Call. It derives the type of the reply from the type of the request.
func call[Req wire.Request[Rep], Rep any](ctx context.Context, q *Queue, limit time.Duration, n Host, request Req, handle func(Rep)) error {
	return q.helpers.Call(ctx, limit, n, request, func(reply wire.Message) { handle(reply.(Rep)) })
}

// IsQueueHost reports whether a node is one of the queue hosts.
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

// TakeNotice returns and forgets a problem with the decision lock. host is the host that has reported it. text is empty
// if there is no problem. The caller reports the problem to the user.
func (q *Queue) TakeNotice() (host, text string) {
	if q.host != nil {
		host, text = q.host.Name(), q.lockNotice
	}
	q.lockNotice = ""
	return host, text
}

// Finish ends the use of the queue. It must be called after success and after failure.
func (q *Queue) Finish() { close(q.finished) }

// Standing returns two facts about the request's place in the queue that an attempt to start needs. ahead is the number
// of requests before this one, as the queue host has reported it (wire.DecisionLocked). competing is how many of these
// need nodes that this attempt may use. alone is the time since the first attempt at which no such request was left, or
// 0 if there was none.
func (q *Queue) Standing(ahead int) (competing int, alone time.Duration) {
	if q.avoidedNodes != "" { // the requests ahead want none of the other nodes
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

// DecidesOrder reports whether the queue decides when this request starts. It returns false if there is no
// queue, or if the request bypasses the queue. It also returns false if the request leaves the nodes of the
// queue's first request unused.
func (q *Queue) DecidesOrder() bool { return q.host != nil && q.avoidedNodes == "" && !q.Bypass }

// AvoidedNodes returns the host names of the nodes that this request leaves to the first request of the
// queue.
func (q *Queue) AvoidedNodes() map[string]bool { return ticketNodes(job.Ticket{Nodes: q.avoidedNodes}) }
