package launch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/plan"
	"remshell/wire"
)

// This file is the talk with the queue host: its gate, and the request's place.

// chooseQueue finds the helper that keeps the queue: that of the first queue host that could
// be reached, or of the first node where no cluster file names one. Of the other queue
// hosts those count too who wait there (survive.md SV-37): there is one queue, wherever
// its tickets are.
func (b *booking) chooseQueue() error {
	f, keepers, old := b.fleet, b.req.Queue.Keepers(), b.fleet.queue
	f.queue, f.queues = nil, nil
	for _, n := range b.reached() {
		if len(keepers) == 0 && (f.queue == nil || n.def.ID < f.queue.def.ID) {
			f.queue = n
		}
	}
	for _, host := range keepers {
		i := slices.IndexFunc(f.all, func(n *node) bool { return n.def.Same(host) && n.lost == nil })
		switch {
		case i < 0:
		case f.queue == nil:
			f.queue = f.all[i]
		default:
			f.queues = append(f.queues, f.all[i])
		}
	}
	if f.queue != old && b.spot.held { // the cluster file names another now
		old.send(&wire.Dequeue{})
		b.spot.held = false
	}
	switch {
	case len(keepers) == 0:
		return nil
	case f.queue == nil && b.req.Queue.Required:
		return queueUnreachable(keepers[0].Name, b.whyNoQueue(keepers[0]))
	case f.queue == nil:
		b.ignoreQueue(keepers[0].Name, b.whyNoQueue(keepers[0]))
	case !f.queue.def.Same(keepers[0]):
		b.sayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): the queue is that of %s", keepers[0].Name,
			b.whyNoQueue(keepers[0]), f.queue.def.Name))
	}
	return nil
}

func (b *booking) whyNoQueue(host job.NodeDef) string {
	if err := b.errs[host.Name]; err != nil {
		return reasonOf(err)
	}
	return "it was not reached"
}

// ignoreQueue goes on without the queue, as its administrator prefers to no start at all.
func (b *booking) ignoreQueue(name, why string) {
	b.fleet.queue, b.snap.Ahead = nil, 0
	b.sayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): starting without regard to the queue", name, why))
}

// queueGone is the code of a request that cannot learn whose turn it is.
const queueGone = "queue-unreachable"

func queueUnreachable(name, why string) *StartError {
	return &StartError{fmt.Sprintf(queueGone+": the queue host %s cannot be reached: %s", name, why),
		"name more queueHosts in the cluster file, or say queueRequired = false there", job.ExitInternal}
}

// enter waits for the gate of the queue, and learns how many requests are before us.
func (b *booking) enter(ctx context.Context) error {
	q := b.fleet.queue
	if q == nil {
		return nil
	}
	err := b.ask(ctx, gateTime, []*node{q}, func(*node) wire.Message { return &wire.Gate{Ledger: b.req.Queue.Ledger, Alone: b.alone()} },
		func(_ *node, m wire.Message) bool {
			gated, ok := m.(*wire.Gated)
			if ok {
				b.snap.Ahead = gated.Ahead
				b.gateNotice = gated.Notice
			}
			return ok
		})
	if err == nil && q.lost == nil {
		return b.countElsewhere(ctx)
	}
	if err != nil {
		return err
	}
	why := reasonOf(q.lost)
	if len(b.fleet.queues) > 0 && !b.spot.held { // the next one then
		b.errs[q.def.Name] = q.lost
		if err := b.chooseQueue(); err != nil {
			return err
		}
		return b.enter(ctx)
	}
	switch {
	case b.req.Wait: // it queues there again
		failed := queueUnreachable(q.def.Name, why)
		return &plan.Error{Code: queueGone, Text: failed.Text, Way: failed.Way, Position: 1}
	case !b.req.Queue.Required:
		b.ignoreQueue(q.def.Name, why)
		return nil
	}
	return queueUnreachable(q.def.Name, why)
}

// countElsewhere adds those who wait at other queue hosts: all, or, if we wait ourselves,
// those that were there when we came.
func (b *booking) countElsewhere(ctx context.Context) error {
	for _, other := range b.fleet.queues {
		tickets, err := b.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, t := range tickets {
			if t.Job != b.req.Job && (!b.spot.held || b.spot.elders[t.Job]) {
				b.snap.Ahead++
			}
		}
	}
	return nil
}

func (b *booking) ticketsOf(ctx context.Context, n *node) (tickets []job.Ticket, err error) {
	err = b.ask(ctx, b.answerTime(), []*node{n}, func(*node) wire.Message { return &wire.List{Ledger: b.req.Queue.Ledger} },
		func(_ *node, m wire.Message) bool {
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
func (b *booking) alone() bool {
	return len(b.fleet.all) == 1 && b.fleet.queue.def.Local && !b.req.Wait && b.req.Queue.Host == nil
}

// ungate lets others decide.
func (b *booking) ungate() {
	if q := b.fleet.queue; q != nil {
		q.send(&wire.Ungate{})
	}
}

// countWaiting learns how many requests wait, without the gate.
func (b *booking) countWaiting(ctx context.Context) error {
	q := b.fleet.queue
	if q == nil {
		return nil
	}
	return b.ask(ctx, lookTime, []*node{q}, func(*node) wire.Message { return &wire.List{Ledger: b.req.Queue.Ledger} },
		func(_ *node, m wire.Message) bool {
			listed, ok := m.(*wire.Listed)
			if ok {
				b.snap.Ahead = len(listed.Tickets)
			}
			return ok
		})
}

// keepTurn takes a place in the queue, still behind the gate, for a request whose
// attempt says that it is to wait. It returns the error of the attempt, or its own.
func (b *booking) keepTurn(ctx context.Context, failed error) error {
	e, _ := failed.(*plan.Error)
	if e == nil || e.Position == 0 || b.spot.held {
		return failed
	}
	q, host := b.fleet.queue, b.req.Queue.Host
	switch {
	case q == nil && host != nil:
		return queueUnreachable(host.Name, "the request would have to wait there")
	case q == nil:
		e.Position = 0 // there is nowhere to wait
		return e
	}
	if err := b.join(ctx); err != nil && q.lost == nil {
		return err
	}
	return failed // if the queue host is lost, wait will see to that
}

// join takes a place at the end of the queue.
func (b *booking) join(ctx context.Context) error {
	t := job.Ticket{Job: b.req.Job, UID: b.req.User.UID, User: b.req.User.Name, From: b.req.Queue.From,
		Since: time.Now(), Summary: command(b.req)}
	b.wants(&t)
	b.spot.elders = make(map[job.ID]bool)
	for _, other := range b.fleet.queues {
		elders, err := b.ticketsOf(ctx, other)
		if err != nil {
			return err
		}
		for _, elder := range elders {
			b.spot.elders[elder.Job] = true
		}
	}
	err := b.ask(ctx, b.answerTime(), []*node{b.fleet.queue}, func(*node) wire.Message { return &wire.Enqueue{Ledger: b.req.Queue.Ledger, Ticket: t} },
		func(n *node, m wire.Message) bool {
			if _, ok := m.(*wire.Queued); !ok {
				return false
			}
			b.hear(said{n, m})
			return true
		})
	switch q := b.fleet.queue; {
	case err != nil:
		return err
	case b.spot.held:
		b.beat(q)
	case q.lost != nil:
		return queueUnreachable(q.def.Name, reasonOf(q.lost))
	default:
		return queueUnreachable(q.def.Name, b.spot.lost)
	}
	return nil
}

// beat tells the helper that keeps our place, until the job is booked, that somebody is
// here: also in the midst of an attempt, which may take longer than its patience. Of an
// mpiexec that is stopped it hears nothing, and should not.
func (b *booking) beat(q *node) {
	if q.beating {
		return
	}
	q.beating = true
	go func() {
		ticks := time.NewTicker(wire.PingEvery)
		defer ticks.Stop()
		for q.send(&wire.Ping{}) == nil {
			select {
			case <-ticks.C:
			case <-b.booked:
				return
			}
		}
	}()
}

// rejoin goes to the end of the queue when the place was lost.
func (b *booking) rejoin(ctx context.Context) error {
	q := b.fleet.queue
	why := b.spot.lost
	if q.lost != nil {
		why = fmt.Sprintf("lost contact with %s (%s)", q.def.Name, reasonOf(q.lost))
	}
	b.env.Say(fmt.Sprintf("lost the place in the queue: %s; queueing again at the end", why))
	b.spot.held, b.spot.news = false, true
	for delay := rejoinFirst; q.lost != nil; delay = min(2*delay, rejoinMost) {
		if b.anotherQueue(ctx, q.def) {
			break
		}
		if err := b.rest(ctx, delay); err != nil {
			return err
		}
	}
	if err := b.join(ctx); err != nil && b.fleet.queue.lost == nil {
		return err
	}
	return context.Cause(ctx)
}

// anotherQueue reaches a queue host anew, the first one that answers.
func (b *booking) anotherQueue(ctx context.Context, last job.NodeDef) bool {
	keepers := b.req.Queue.Keepers()
	if len(keepers) == 0 {
		keepers = []job.NodeDef{last}
	}
	for _, host := range keepers {
		i := slices.IndexFunc(b.fleet.all, func(n *node) bool { return n.def.Same(host) && n.lost == nil })
		if i >= 0 {
			b.fleet.queue = b.fleet.all[i]
			return true
		}
		if n, err := reachNode(ctx, host, b.env); err == nil {
			b.replaceQueue(n)
			return true
		}
	}
	return false
}

// replaceQueue takes a new helper of the queue host.
func (b *booking) replaceQueue(n *node) {
	b.fleet.all = slices.DeleteFunc(b.fleet.all, func(old *node) bool { return old == b.fleet.queue })
	b.fleet.all = append(b.fleet.all, n)
	b.fleet.queue = n
	delete(b.errs, n.def.Name)
	go b.fleet.read(n)
}

// leaveQueue gives the place up: the job has its nodes.
func (b *booking) leaveQueue() {
	if b.spot.held {
		b.fleet.queue.send(&wire.Dequeue{})
	}
	if b.spot.told != "" {
		b.env.Say("starting now, waited " + clock(time.Since(b.spot.began)))
	}
}
