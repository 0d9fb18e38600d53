package reserve

import (
	"context"
	"fmt"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/plan"
	"remshell/wire"
)

// A queueTalk is the talk with the queue host: its gate, and the request's position.
type queueTalk struct {
	queue      *host   // whose helper keeps the queue; nil: none does
	queues     []*host // the other queue hosts
	position   position
	aside      string        // nodes that the head of the queue names, and which we leave to it
	gateNotice string        // what is wrong with the gate
	settled    chan struct{} // closed when the job has its place, or shall have none
}

// chooseQueue finds the helper that keeps the queue: that of the first queue host that could
// be reached, or of the first node where no cluster file names one. Of the other queue
// hosts those count too who wait there (survive.md SV-37): there is one queue, wherever
// its tickets are.
func (r *reservation) chooseQueue() error {
	keepers, old := r.req.Queue.Keepers(), r.queue
	if r.queue, r.queues = nil, nil; r.granted() {
		return nil
	}
	for _, n := range r.reached() {
		if len(keepers) == 0 && (r.queue == nil || n.def.ID < r.queue.def.ID) {
			r.queue = n
		}
	}
	for _, host := range keepers {
		switch n := r.find(host); {
		case n == nil:
		case r.queue == nil:
			r.queue = n
		default:
			r.queues = append(r.queues, n)
		}
	}
	if r.queue != old && r.position.held { // the cluster file names another now
		old.Send(&wire.Dequeue{})
		r.position.held = false
	}
	switch {
	case len(keepers) == 0:
		return nil
	case r.queue == nil && r.req.Queue.Required:
		return queueUnreachable(keepers[0].Name, r.whyNoQueue(keepers[0]))
	case r.queue == nil:
		r.ignoreQueue(keepers[0].Name, r.whyNoQueue(keepers[0]))
	case !r.queue.def.Same(keepers[0]):
		r.sayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): the queue is that of %s", keepers[0].Name,
			r.whyNoQueue(keepers[0]), r.queue.def.Name))
	}
	return nil
}

func (r *reservation) whyNoQueue(host job.NodeDef) string {
	if err := r.errs[host.Name]; err != nil {
		return fault.Reason(err)
	}
	return "it was not reached"
}

// granted reports whether a batch system has decided who uses the hosts: there is no queue of ours
// then, and who waits, waits for launches of the same job of the batch system (RM-20).
func (r *reservation) granted() bool { return r.req.RM.ID() != "" }

// ignoreQueue goes on without the queue, as its administrator prefers to no start at all.
func (r *reservation) ignoreQueue(name, why string) {
	r.queue, r.snap.Ahead = nil, 0
	r.sayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): starting without regard to the queue", name, why))
}

// queueGone is the code of a request that cannot learn whose turn it is.
const queueGone = "queue-unreachable"

func queueUnreachable(name, why string) *fault.Error {
	return &fault.Error{Text: fmt.Sprintf(queueGone+": the queue host %s cannot be reached: %s", name, why),
		Remedy: "name more queueHosts in the cluster file, or say queueRequired = false there", Code: job.ExitInternal}
}

// enter waits for the gate of the queue, and learns how many requests are before us.
func (r *reservation) enter(ctx context.Context) error {
	q := r.queue
	if q == nil {
		return nil
	}
	err := r.ask(ctx, gateTime, []*host{q}, func(*host) wire.Message { return &wire.Gate{Ledger: r.req.Queue.Ledger, Alone: r.alone()} },
		func(_ *host, m wire.Message) bool {
			gated, ok := m.(*wire.Gated)
			if ok {
				r.snap.Ahead = gated.Ahead
				r.gateNotice = gated.Notice
			}
			return ok
		})
	if err == nil && q.lost == nil && r.position.moved != nil {
		err = r.recount(ctx)
		r.snap.Ahead = r.position.ahead
	}
	if err == nil && q.lost == nil {
		return r.countElsewhere(ctx)
	}
	if err != nil {
		return err
	}
	why := fault.Reason(q.lost)
	if len(r.queues) > 0 && !r.position.held { // the next one then
		r.errs[q.def.Name] = q.lost
		if err := r.chooseQueue(); err != nil {
			return err
		}
		return r.enter(ctx)
	}
	switch {
	case r.req.Wait || !r.position.began.IsZero(): // it queues there again
		failed := queueUnreachable(q.def.Name, why)
		return &plan.Error{Code: queueGone, Text: failed.Text, Way: failed.Remedy, Position: 1}
	case !r.req.Queue.Required:
		r.ignoreQueue(q.def.Name, why)
		return nil
	}
	return queueUnreachable(q.def.Name, why)
}

// countElsewhere adds those who wait at other queue hosts: all, or, if we wait ourselves,
// those that were there when we came.
func (r *reservation) countElsewhere(ctx context.Context) error {
	for _, other := range r.queues {
		tickets, err := r.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, t := range tickets {
			if t.Job != r.req.Job && (!r.position.held || r.position.elders[t.Job]) {
				r.snap.Ahead++
			}
		}
	}
	return nil
}

func (r *reservation) ticketsOf(ctx context.Context, n *host) (tickets []job.Ticket, err error) {
	err = r.ask(ctx, r.answerTime(), []*host{n}, func(*host) wire.Message { return &wire.List{Ledger: r.req.Queue.Ledger} },
		func(_ *host, m wire.Message) bool {
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
func (r *reservation) alone() bool {
	return len(r.hosts) == 1 && r.queue.def.Local && !r.req.Wait && r.req.Set.Delay == 0 && r.req.Queue.Host == nil
}

// ungate lets others decide.
func (r *reservation) ungate() {
	if q := r.queue; q != nil {
		q.Send(&wire.Ungate{})
	}
}

// countWaiting learns how many requests wait, without the gate.
func (r *reservation) countWaiting(ctx context.Context) error {
	q := r.queue
	if q == nil {
		return nil
	}
	return r.ask(ctx, lookTime, []*host{q}, func(*host) wire.Message { return &wire.List{Ledger: r.req.Queue.Ledger} },
		func(_ *host, m wire.Message) bool {
			listed, ok := m.(*wire.Listed)
			if ok {
				r.snap.Ahead = len(listed.Tickets)
			}
			return ok
		})
}

// keepTurn takes a place in the queue, still behind the gate, for a request whose
// attempt says that it is to wait. It returns the error of the attempt, or its own.
func (r *reservation) keepTurn(ctx context.Context, failed error) error {
	e, _ := failed.(*plan.Error)
	if e == nil || e.Position == 0 || r.position.held {
		return failed
	}
	q, host := r.queue, r.req.Queue.Host
	switch {
	case r.granted():
		return failed // wait looks at the nodes alone
	case q == nil && host != nil:
		return queueUnreachable(host.Name, "the request would have to wait there")
	case q == nil:
		e.Position = 0 // there is nowhere to wait
		return e
	}
	if err := r.join(ctx, e); err != nil && q.lost == nil {
		return err
	}
	return failed // if the queue host is lost, wait will see to that
}

// join takes a place at the end of the queue, for a request that failed so. Who is there already, at any
// queue host, is ahead.
func (r *reservation) join(ctx context.Context, failed *plan.Error) error {
	r.position.elders, r.position.moved = make(map[job.ID]bool), nil
	for _, other := range r.queues {
		elders, err := r.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, elder := range elders {
			r.position.elders[elder.Job] = true
		}
	}
	if err := r.enqueue(ctx, failed); err != nil {
		return err
	}
	return r.noteElders(ctx)
}

// enqueue takes a ticket.
func (r *reservation) enqueue(ctx context.Context, failed *plan.Error) error {
	t := job.Ticket{Job: r.req.Job, UID: r.req.User.UID, User: r.req.User.Name, From: r.req.Queue.From,
		Since: time.Now(), Summary: r.req.Command()}
	r.wants(&t)
	if failed.Code == plan.Delayed {
		t.Until = t.Since.Add(failed.Left)
	}
	err := r.ask(ctx, r.answerTime(), []*host{r.queue}, func(*host) wire.Message { return &wire.Enqueue{Ledger: r.req.Queue.Ledger, Ticket: t} },
		func(n *host, m wire.Message) bool {
			if _, ok := m.(*wire.Queued); !ok {
				return false
			}
			r.handle(message{n, m})
			return true
		})
	switch q := r.queue; {
	case err != nil:
		return err
	case r.position.held:
		r.beat(q)
	case q.lost != nil:
		return queueUnreachable(q.def.Name, fault.Reason(q.lost))
	default:
		return queueUnreachable(q.def.Name, r.position.lost)
	}
	return nil
}

// beat tells the helper that keeps our place, until the job has its place, that somebody is
// here: also in the midst of an attempt, which may take longer than its patience. Of an
// mpiexec that is stopped it hears nothing, and should not.
func (r *reservation) beat(q *host) {
	if q.beating {
		return
	}
	q.beating = true
	go func() {
		ticks := time.NewTicker(wire.PingEvery)
		defer ticks.Stop()
		for q.Send(&wire.Ping{}) == nil {
			select {
			case <-ticks.C:
			case <-r.settled:
				return
			}
		}
	}()
}

// leaveQueue gives the place up: the job has its nodes.
func (r *reservation) leaveQueue() {
	if r.position.held {
		r.queue.Send(&wire.Dequeue{})
	}
	if r.position.told != "" {
		r.env.Say("starting now, waited " + job.Clock(time.Since(r.position.began)))
	}
}
