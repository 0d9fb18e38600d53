package queue

import (
	"context"
	"fmt"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/plan"
	"remshell/wire"
)

// Choose finds the helper that keeps the queue: that of the first queue host that could
// be reached, or of the first node where no cluster file names one. Of the other queue
// hosts those count too who wait there (survive.md SV-37): there is one queue, wherever
// its tickets are.
func (q *Queue) Choose() error {
	keepers, old := q.req.Queue.Keepers(), q.keeper
	if q.keeper, q.others = nil, nil; q.granted() {
		return nil
	}
	if len(keepers) == 0 {
		q.keeper = q.crew.First()
	}
	for _, host := range keepers {
		switch n := q.crew.Find(host.Name); {
		case n == nil:
		case q.keeper == nil:
			q.keeper = n
		default:
			q.others = append(q.others, n)
		}
	}
	if q.keeper != old && q.position.held { // the cluster file names another now
		old.Send(&wire.Dequeue{})
		q.position.held = false
	}
	switch {
	case len(keepers) == 0:
		return nil
	case q.keeper == nil && q.req.Queue.Required:
		return unreachable(keepers[0].Name, q.whyNone(keepers[0]))
	case q.keeper == nil:
		q.ignore(keepers[0].Name, q.whyNone(keepers[0]))
	case q.keeper.Name() != keepers[0].Name:
		q.env.SayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): the queue is that of %s", keepers[0].Name,
			q.whyNone(keepers[0]), q.keeper.Name()))
	}
	return nil
}

func (q *Queue) whyNone(host job.NodeDef) string {
	if err := q.crew.Why(host.Name); err != nil {
		return fault.Reason(err)
	}
	return "it was not reached"
}

// granted reports whether a batch system has decided who uses the hosts: there is no queue of ours
// then, and who waits, waits for launches of the same job of the batch system (RM-20).
func (q *Queue) granted() bool { return q.req.RM.ID() != "" }

// ignore goes on without the queue, as its administrator prefers to no start at all.
func (q *Queue) ignore(name, why string) {
	q.keeper, q.ahead = nil, 0
	q.env.SayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): starting without regard to the queue", name, why))
}

// gateTime is how long the queue host may take to open the gate: as long as a helper lets
// another one hold it, and then some.
const gateTime = 40 * time.Second

// Gone is the code of a request that cannot learn whose turn it is.
const Gone = "queue-unreachable"

func unreachable(name, why string) *fault.Error {
	return &fault.Error{Text: fmt.Sprintf("the queue host %s cannot be reached: %s", name, why),
		Remedy: "name more queueHosts in the cluster file, or say queueRequired = false there", Code: job.ExitInternal}
}

// Enter waits for the gate of the queue, and learns how many requests are before ours.
func (q *Queue) Enter(ctx context.Context) (ahead int, err error) {
	err = q.enter(ctx)
	return q.ahead, err
}

func (q *Queue) enter(ctx context.Context) error {
	n := q.keeper
	if n == nil {
		return nil
	}
	err := q.crew.Ask(ctx, gateTime, n, &wire.Gate{Ledger: q.req.Queue.Ledger, Alone: q.alone()}, func(m wire.Message) bool {
		gated, ok := m.(*wire.Gated)
		if ok {
			q.ahead = gated.Ahead
			q.gateNotice = gated.Notice
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
	why := fault.Reason(n.Lost())
	if len(q.others) > 0 && !q.position.held { // the next one then
		if err := q.Choose(); err != nil {
			return err
		}
		return q.enter(ctx)
	}
	switch {
	case q.req.Wait || q.Waits(): // it queues there again
		failed := unreachable(n.Name(), why)
		return &plan.Error{Code: Gone, Text: failed.Text, Way: failed.Remedy, Position: 1}
	case !q.req.Queue.Required:
		q.ignore(n.Name(), why)
		return nil
	}
	return unreachable(n.Name(), why)
}

// countElsewhere adds those who wait at other queue hosts: all, or, if we wait ourselves,
// those that were there when we came.
func (q *Queue) countElsewhere(ctx context.Context) error {
	for _, other := range q.others {
		tickets, err := q.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, t := range tickets {
			if t.Job != q.req.Job && (!q.position.held || q.position.elders[t.Job]) {
				q.ahead++
			}
		}
	}
	return nil
}

func (q *Queue) ticketsOf(ctx context.Context, n Host) (tickets []job.Ticket, err error) {
	return q.tickets(ctx, n, q.env.Answer)
}

func (q *Queue) tickets(ctx context.Context, n Host, limit time.Duration) (tickets []job.Ticket, err error) {
	err = q.crew.Ask(ctx, limit, n, &wire.List{Ledger: q.req.Queue.Ledger}, func(m wire.Message) bool {
		listed, ok := m.(*wire.Listed)
		if ok {
			tickets = listed.Tickets
		}
		return ok
	})
	return tickets, err
}

// alone reports whether the request is this machine's alone and does not wait: then it needs
// no gate (TRUST-17).
func (q *Queue) alone() bool {
	return q.crew.Alone() && !q.req.Wait && q.req.Set.Delay == 0 && q.req.Queue.Host == nil
}

// Ungate lets others decide.
func (q *Queue) Ungate() {
	if n := q.keeper; n != nil {
		n.Send(&wire.Ungate{})
	}
}

// Count learns how many requests wait, without the gate; the host that keeps the queue has so long to say it.
func (q *Queue) Count(ctx context.Context, limit time.Duration) (int, error) {
	if q.keeper == nil {
		return 0, nil
	}
	tickets, err := q.tickets(ctx, q.keeper, limit)
	return len(tickets), err
}

// KeepTurn takes a place in the queue, still behind the gate, for a request whose
// attempt says that it is to wait. It returns the error of the attempt, or its own.
func (q *Queue) KeepTurn(ctx context.Context, failed error) error {
	e, _ := failed.(*plan.Error)
	if e == nil || e.Position == 0 || q.position.held {
		return failed
	}
	n, host := q.keeper, q.req.Queue.Host
	switch {
	case q.granted():
		return failed // wait looks at the nodes alone
	case n == nil && host != nil:
		return unreachable(host.Name, "the request would have to wait there")
	case n == nil:
		e.Position = 0 // there is nowhere to wait
		return e
	}
	if err := q.join(ctx, e); err != nil && n.Lost() == nil {
		return err
	}
	return failed // if the queue host is lost, wait will see to that
}

// join takes a place at the end of the queue, for a request that failed so. Who is there already, at any
// queue host, is ahead.
func (q *Queue) join(ctx context.Context, failed *plan.Error) error {
	q.position.elders, q.position.moved = make(map[job.ID]bool), nil
	for _, other := range q.others {
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
	t := job.Ticket{Job: q.req.Job, UID: q.req.User.UID, User: q.req.User.Name, From: q.req.Queue.From,
		Since: time.Now(), Summary: q.req.Command()}
	q.wants(&t)
	if failed.Code == plan.Delayed {
		t.Until = t.Since.Add(failed.Left)
	}
	n := q.keeper
	err := q.crew.Ask(ctx, q.env.Answer, n, &wire.Enqueue{Ledger: q.req.Queue.Ledger, Ticket: t}, q.answered)
	switch {
	case err != nil:
		return err
	case q.position.held:
		q.beat(n)
	case n.Lost() != nil:
		return unreachable(n.Name(), fault.Reason(n.Lost()))
	default:
		return unreachable(n.Name(), q.position.lost)
	}
	return nil
}

// beat tells the helper that keeps our place, until the job has its place, that somebody is
// here: also in the midst of an attempt, which may take longer than its patience. Of an
// mpiexec that is stopped it hears nothing, and should not.
func (q *Queue) beat(n Host) {
	if q.heard[n] {
		return
	}
	q.heard[n] = true
	go func() {
		ticks := time.NewTicker(wire.PingEvery)
		defer ticks.Stop()
		for n.Send(&wire.Ping{}) == nil {
			select {
			case <-ticks.C:
			case <-q.settled:
				return
			}
		}
	}()
}

// Leave gives the place up: the job has its nodes.
func (q *Queue) Leave() {
	if q.position.held {
		q.keeper.Send(&wire.Dequeue{})
	}
	if q.position.told != "" {
		q.env.Say("starting now, waited " + job.Clock(q.Waited()))
	}
}
