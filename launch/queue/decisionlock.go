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

// ChooseHost finds the helper that keeps the queue: that of the first queue host that could
// be reached, or of the first node where no cluster file names one. Of the other queue
// hosts those count too who wait there (survive.md SV-37): there is one queue, wherever
// its tickets are.
func (q *Queue) ChooseHost() error {
	keepers, old := q.req.Queue.QueueHosts(), q.host
	if q.host, q.otherHosts = nil, nil; q.isBatchManaged() {
		return nil
	}
	if len(keepers) == 0 {
		q.host = q.helpers.FirstReached()
	}
	for _, host := range keepers {
		switch n := q.helpers.FindHost(host.Name); {
		case n == nil:
		case q.host == nil:
			q.host = n
		default:
			q.otherHosts = append(q.otherHosts, n)
		}
	}
	if q.host != old && q.position.hasPlace { // the cluster file names another now
		old.Send(&wire.Dequeue{})
		q.position.hasPlace = false
	}
	switch {
	case len(keepers) == 0:
		return nil
	case q.host == nil && q.req.Queue.Required:
		return unreachableError(keepers[0].Name, q.noQueueReason(keepers[0]))
	case q.host == nil:
		q.continueWithout(keepers[0].Name, q.noQueueReason(keepers[0]))
	case q.host.Name() != keepers[0].Name:
		q.env.SayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): the queue is that of %s", keepers[0].Name,
			q.noQueueReason(keepers[0]), q.host.Name()))
	}
	return nil
}

func (q *Queue) noQueueReason(host job.NodeDef) string {
	if err := q.helpers.WhyUnreached(host.Name); err != nil {
		return usererr.Reason(err)
	}
	return "it was not reached"
}

// isBatchManaged reports whether a batch system has decided who uses the hosts: there is no queue of ours
// then, and who waits, waits for launches of the same job of the batch system (RM-20).
func (q *Queue) isBatchManaged() bool { return q.req.RM.ID() != "" }

// continueWithout goes on without the queue, as its administrator prefers to no start at all.
func (q *Queue) continueWithout(name, why string) {
	q.host, q.ahead = nil, 0
	q.env.SayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): starting without regard to the queue", name, why))
}

// lockTimeout is how long the queue host may take to open the gate: as long as a helper lets
// another one hold it, and then some.
const lockTimeout = 40 * time.Second

// CodeQueueUnreachable is the code of a request that cannot learn whose turn it is.
const CodeQueueUnreachable = "queue-unreachable"

func unreachableError(name, why string) *usererr.Error {
	return &usererr.Error{Text: fmt.Sprintf("the queue host %s cannot be reached: %s", name, why),
		Remedy: "name more queueHosts in the cluster file, or say queueRequired = false there", Code: job.ExitInternal}
}

// LockDecision waits for the gate of the queue, and learns how many requests are before ours.
func (q *Queue) LockDecision(ctx context.Context) (ahead int, err error) {
	err = q.requestLock(ctx)
	return q.ahead, err
}

func (q *Queue) requestLock(ctx context.Context) error {
	n := q.host
	if n == nil {
		return nil
	}
	err := q.helpers.Request(ctx, lockTimeout, n, &wire.LockDecision{Ledger: q.req.Queue.LedgerDir, LocalOnly: q.needsNoLock()}, func(m wire.Message) bool {
		gated, ok := m.(*wire.DecisionLocked)
		if ok {
			q.ahead = gated.Ahead
			q.lockNotice = gated.Notice
		}
		return ok
	})
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
	if len(q.otherHosts) > 0 && !q.position.hasPlace { // the next one then
		if err := q.ChooseHost(); err != nil {
			return err
		}
		return q.requestLock(ctx)
	}
	switch {
	case q.req.Wait || q.IsWaiting(): // it queues there again
		failed := unreachableError(n.Name(), why)
		return &plan.Error{Code: CodeQueueUnreachable, Text: failed.Text, Remedy: failed.Remedy, QueuePosition: 1}
	case !q.req.Queue.Required:
		q.continueWithout(n.Name(), why)
		return nil
	}
	return unreachableError(n.Name(), why)
}

// countElsewhere adds those who wait at other queue hosts: all, or, if we wait ourselves,
// those that were there when we came.
func (q *Queue) countElsewhere(ctx context.Context) error {
	for _, other := range q.otherHosts {
		tickets, err := q.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, t := range tickets {
			if t.Job != q.req.Job && (!q.position.hasPlace || q.position.elders[t.Job]) {
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
	err = q.helpers.Request(ctx, limit, n, &wire.ListLedger{Ledger: q.req.Queue.LedgerDir}, func(m wire.Message) bool {
		listed, ok := m.(*wire.LedgerListed)
		if ok {
			tickets = listed.Tickets
		}
		return ok
	})
	return tickets, err
}

// needsNoLock reports whether the request is this machine's alone and does not wait: then it needs
// no gate (TRUST-17).
func (q *Queue) needsNoLock() bool {
	return q.helpers.OnlyThisMachine() && !q.req.Wait && q.req.NodeSet.Delay == 0 && q.req.Queue.Host == nil
}

// UnlockDecision lets others decide.
func (q *Queue) UnlockDecision() {
	if n := q.host; n != nil {
		n.Send(&wire.UnlockDecision{})
	}
}

// Count learns how many requests wait, without the gate; the host that keeps the queue has so long to say it.
func (q *Queue) Count(ctx context.Context, limit time.Duration) (int, error) {
	if q.host == nil {
		return 0, nil
	}
	tickets, err := q.tickets(ctx, q.host, limit)
	return len(tickets), err
}

// EnqueueFailed takes a place in the queue, still behind the gate, for a request whose
// attempt says that it is to wait. It returns the error of the attempt, or its own.
func (q *Queue) EnqueueFailed(ctx context.Context, failed error) error {
	e, _ := failed.(*plan.Error)
	if e == nil || e.QueuePosition == 0 || q.position.hasPlace {
		return failed
	}
	n, host := q.host, q.req.Queue.Host
	switch {
	case q.isBatchManaged():
		return failed // wait looks at the nodes alone
	case n == nil && host != nil:
		return unreachableError(host.Name, "the request would have to wait there")
	case n == nil:
		e.QueuePosition = 0 // there is nowhere to wait
		return e
	}
	if err := q.enqueueLast(ctx, e); err != nil && n.Lost() == nil {
		return err
	}
	return failed // if the queue host is lost, wait will see to that
}

// enqueueLast takes a place at the end of the queue, for a request that failed so. Who is there already, at any
// queue host, is ahead.
func (q *Queue) enqueueLast(ctx context.Context, failed *plan.Error) error {
	q.position.elders, q.position.moved = make(map[job.ID]bool), nil
	for _, other := range q.otherHosts {
		elders, err := q.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, elder := range elders {
			q.position.elders[elder.Job] = true
		}
	}
	if err := q.enqueue(ctx, failed); err != nil {
		return err
	}
	return q.noteElders(ctx)
}

// enqueue takes a ticket.
func (q *Queue) enqueue(ctx context.Context, failed *plan.Error) error {
	t := job.Ticket{Job: q.req.Job, UID: q.req.User.UID, User: q.req.User.Name, LauncherHost: q.req.Queue.LauncherHost,
		Since: time.Now(), Summary: q.req.Command()}
	q.describeRequest(&t)
	if failed.Code == plan.CodeDelayed {
		t.SetDelayEnd = t.Since.Add(failed.DelayLeft)
	}
	n := q.host
	err := q.helpers.Request(ctx, q.env.ReplyTime, n, &wire.Enqueue{Ledger: q.req.Queue.LedgerDir, Ticket: t}, q.isReply)
	switch {
	case err != nil:
		return err
	case q.position.hasPlace:
		q.sendPings(n)
	case n.Lost() != nil:
		return unreachableError(n.Name(), usererr.Reason(n.Lost()))
	default:
		return unreachableError(n.Name(), q.position.lostWhy)
	}
	return nil
}

// sendPings tells the helper that keeps our place, until the job has its place, that somebody is
// here: also in the midst of an attempt, which may take longer than its patience. Of an
// mpiexec that is stopped it hears nothing, and should not.
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

// Leave gives the place up: the job has its nodes.
func (q *Queue) Leave() {
	if q.position.hasPlace {
		q.host.Send(&wire.Dequeue{})
	}
	if q.position.lastReport != "" {
		q.env.Say("starting now, waited " + job.FormatClock(q.Waited()))
	}
}
