package queue

import (
	"context"
	"fmt"
	"time"

	"remshell/job"
	"remshell/plan"
	"remshell/usererr"
	"remshell/wire"
)

// ChooseHost chooses the queue host. This is the first host in the cluster file's list of queue hosts that was
// reached. If there is no list, it is the first node that was reached. All reached hosts of the list form one
// queue (rule SV-37), so ChooseHost also records the others.
func (q *Queue) ChooseHost() error {
	queueHosts, old := q.req.Queue.QueueHosts(), q.host
	if q.host, q.otherHosts = nil, nil; q.isBatchManaged() {
		return nil
	}
	if len(queueHosts) == 0 {
		q.host = q.helpers.FirstReached()
	}
	for _, host := range queueHosts {
		switch n := q.helpers.FindHost(host.Name); {
		case n == nil:
		case q.host == nil:
			q.host = n
		default:
			q.otherHosts = append(q.otherHosts, n)
		}
	}
	if q.host != old && q.position.hasTicket { // the cluster file now names another host
		old.Send(&wire.Dequeue{})
		q.position.hasTicket = false
	}
	switch {
	case len(queueHosts) == 0:
		return nil
	case q.host == nil && q.req.Queue.Required:
		return unreachableError(queueHosts[0].Name, q.noQueueReason(queueHosts[0]))
	case q.host == nil:
		q.continueWithout(queueHosts[0].Name, q.noQueueReason(queueHosts[0]))
	case q.host.Name() != queueHosts[0].Name:
		q.env.SayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s); mpiexec uses the queue on %s", queueHosts[0].Name,
			q.noQueueReason(queueHosts[0]), q.host.Name()))
	}
	return nil
}

func (q *Queue) noQueueReason(host job.NodeDef) string {
	if err := q.helpers.WhyUnreached(host.Name); err != nil {
		return usererr.Reason(err)
	}
	return "mpiexec is not connected to it"
}

// isBatchManaged reports whether mpiexec runs inside a batch job. In that case there is no queue, because the
// batch system has chosen the hosts. A request then waits only for other launches in the same batch job (rule
// RM-20).
func (q *Queue) isBatchManaged() bool { return q.req.RM.ID() != "" }

// continueWithout lets the job start although the queue host called name cannot be reached (queueRequired = false).
func (q *Queue) continueWithout(name, reason string) {
	q.host, q.ahead = nil, 0
	q.env.SayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s); the job starts without waiting in the queue", name, reason))
}

// lockTimeout is how long mpiexec waits for the decision lock, which ensures that one job at a time is
// planned. It is longer than the time for which a helper lets one request hold the lock.
const lockTimeout = 40 * time.Second

// CodeQueueUnreachable is the error code for a request whose queue host cannot be reached.
const CodeQueueUnreachable = "queue-unreachable"

func unreachableError(name, reason string) *usererr.Error {
	return &usererr.Error{Text: fmt.Sprintf("the queue host %s cannot be reached: %s", name, reason),
		Remedy: "add hosts to queueHosts in the cluster file, or set queueRequired = false there", Code: job.ExitInternal}
}

// LockDecision waits for the decision lock on the queue host, which ensures that one job at a time is
// planned. It returns how many requests come before this one in the queue.
func (q *Queue) LockDecision(ctx context.Context) (ahead int, err error) {
	err = q.requestLock(ctx)
	return q.ahead, err
}

func (q *Queue) requestLock(ctx context.Context) error {
	n := q.host
	if n == nil {
		return nil
	}
	err := call(ctx, q, lockTimeout, n, &wire.LockDecision{Ledger: q.req.Queue.LedgerDir, LocalOnly: q.needsNoLock()},
		func(locked *wire.DecisionLocked) { q.ahead, q.lockNotice = locked.Ahead, locked.Notice })
	if err == nil && n.Lost() == nil && q.position.moved != nil {
		err = q.recount(ctx)
		q.ahead = q.position.ahead
	}
	if err == nil && n.Lost() == nil {
		return q.countElsewhere(ctx)
	}
	if err != nil {
		return err
	}
	why := usererr.Reason(n.Lost())
	if len(q.otherHosts) > 0 && !q.position.hasTicket { // use the next queue host
		if err := q.ChooseHost(); err != nil {
			return err
		}
		return q.requestLock(ctx)
	}
	switch {
	case q.req.Wait || q.IsWaiting(): // the request queues there again
		failed := unreachableError(n.Name(), why)
		return &plan.Error{Code: CodeQueueUnreachable, Text: failed.Text, Remedy: failed.Remedy, QueuePosition: 1}
	case !q.req.Queue.Required:
		q.continueWithout(n.Name(), why)
		return nil
	}
	return unreachableError(n.Name(), why)
}

// countElsewhere adds to q.ahead the requests that wait at other queue hosts. If this request already has a ticket, it
// counts only requests that were in the queue earlier.
func (q *Queue) countElsewhere(ctx context.Context) error {
	for _, other := range q.otherHosts {
		tickets, err := q.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, t := range tickets {
			if t.Job != q.req.Job && (!q.position.hasTicket || q.position.earlierRequests[t.Job]) {
				q.ahead++
			}
		}
	}
	return nil
}

func (q *Queue) ticketsOf(ctx context.Context, n Host) (tickets []job.Ticket, err error) {
	return q.tickets(ctx, n, q.env.ReplyTime)
}

func (q *Queue) tickets(ctx context.Context, n Host, limit time.Duration) (tickets []job.Ticket, err error) {
	err = call(ctx, q, limit, n, &wire.ListLedger{Ledger: q.req.Queue.LedgerDir}, func(listed *wire.LedgerListed) { tickets = listed.Tickets })
	return tickets, err
}

// needsNoLock reports whether the request uses only this machine and does not wait. Such a request does not
// need the decision lock (rule TRUST-17).
func (q *Queue) needsNoLock() bool {
	return q.helpers.OnlyThisMachine() && !q.req.Wait && q.req.NodeSet.Delay == 0 && q.req.Queue.Host == nil
}

// UnlockDecision releases the decision lock, so that another job can be planned.
func (q *Queue) UnlockDecision() {
	if n := q.host; n != nil {
		n.Send(&wire.UnlockDecision{})
	}
}

// Count returns how many requests wait in the queue, without taking the decision lock. The queue host must
// reply within limit.
func (q *Queue) Count(ctx context.Context, limit time.Duration) (int, error) {
	if q.host == nil {
		return 0, nil
	}
	tickets, err := q.tickets(ctx, q.host, limit)
	return len(tickets), err
}

// EnqueueFailed puts the request into the queue after an attempt to start has failed, if waiting may help.
// failed is the error of that attempt. If waiting cannot help, EnqueueFailed returns failed. The caller still
// holds the decision lock.
func (q *Queue) EnqueueFailed(ctx context.Context, failed error) error {
	e, _ := failed.(*plan.Error)
	if e == nil || e.QueuePosition == 0 || q.position.hasTicket {
		return failed
	}
	n, host := q.host, q.req.Queue.Host
	switch {
	case q.isBatchManaged():
		return failed // WaitForChance watches only the nodes
	case n == nil && host != nil:
		return unreachableError(host.Name, "the request cannot wait in its queue")
	case n == nil:
		e.QueuePosition = 0 // there is no queue
		return e
	}
	if err := q.enqueueLast(ctx, e); err != nil && n.Lost() == nil {
		return err
	}
	return failed // if the queue host is lost, WaitForChance handles that
}

// enqueueLast puts the request at the end of the queue. All requests that wait now, at any queue host, come
// before it. failed is the error of the request's last attempt to start.
func (q *Queue) enqueueLast(ctx context.Context, failed *plan.Error) error {
	q.position.earlierRequests, q.position.moved = make(map[job.ID]bool), nil
	for _, other := range q.otherHosts {
		tickets, err := q.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, t := range tickets {
			q.position.earlierRequests[t.Job] = true
		}
	}
	if err := q.enqueue(ctx, failed); err != nil {
		return err
	}
	return q.noteEarlierRequests(ctx)
}

// enqueue creates a ticket on the queue host, which gives the request its place in the queue. failed says why it waits.
func (q *Queue) enqueue(ctx context.Context, failed *plan.Error) error {
	t := job.Ticket{Job: q.req.Job, UID: q.req.User.UID, User: q.req.User.Name, LauncherHost: q.req.Queue.LauncherHost,
		Since: time.Now(), Summary: q.req.Command()}
	q.describeRequest(&t)
	if failed.Code == plan.CodeDelayed {
		t.SetDelayEnd = t.Since.Add(failed.DelayLeft)
	}
	n := q.host
	err := call(ctx, q, q.env.ReplyTime, n, &wire.Enqueue{Ledger: q.req.Queue.LedgerDir, Ticket: t}, q.PositionReceived)
	switch {
	case err != nil:
		return err
	case q.position.hasTicket:
		q.sendPings(n)
	case n.Lost() != nil:
		return unreachableError(n.Name(), usererr.Reason(n.Lost()))
	default:
		return unreachableError(n.Name(), q.position.lostWhy)
	}
	return nil
}

// sendPings sends Pings to the queue host until Finish is called. It also does so during attempts to start, which
// may take longer than the helper's PingTimeout. A stopped mpiexec sends no Pings, and the queue host's helper
// then removes its ticket.
func (q *Queue) sendPings(n Host) {
	if q.pinged[n] {
		return
	}
	q.pinged[n] = true
	go func() {
		ticks := time.NewTicker(wire.PingEvery)
		defer ticks.Stop()
		for n.Send(&wire.Ping{}) == nil {
			select {
			case <-ticks.C:
			case <-q.finished:
				return
			}
		}
	}()
}

// Leave removes the request's ticket, because the job now has its nodes.
func (q *Queue) Leave() {
	if q.position.hasTicket {
		q.host.Send(&wire.Dequeue{})
	}
	if q.position.lastReport != "" {
		q.env.Say("the job starts now, after waiting for " + job.FormatClock(q.Waited()))
	}
}
