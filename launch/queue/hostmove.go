package queue

import (
	"context"
	"fmt"
	"time"

	"remshell/job"
	"remshell/plan"
	"remshell/usererr"
)

/*
A hostMove moves a waiting request to another queue host after its own was lost (survive.md SV-39). All
requests that waited there enqueue at the new host at about the same time, in any order. So the new ticket
numbers do not tell which request is ahead. But each request knows the earlier requests: those that were
ahead when it began to wait. Only these come before it, at whichever queue host they are now (rule SV-37).

	wait 50 ms for each request ahead --> enqueue at the next host --> each second, count the earlier requests
	                                                                   there, and those that have not arrived
	                                                                     '--> none: it is the head

The number of earlier requests that have not arrived is the number of requests that were ahead when the host was lost,
minus those seen since then. The request waits for them for at most maxMoveWait.
*/
type hostMove struct {
	earlierAhead int             // number of earlier requests that were ahead when the host was lost
	earlierSeen  map[job.ID]bool // earlier requests that were seen at the new host
	until        time.Time       // end of the wait for the others
	next         time.Time       // when to count again
}

// These times apply when a request moves to another queue host (hostMove).
const (
	moveStep     = 50 * time.Millisecond // delay for each position, so that requests arrive in order
	maxMoveWait  = 15 * time.Second
	recountEvery = time.Second
)

// rejoin puts the request into the queue again after its ticket was lost. If the queue host is lost, the
// request moves to the next queue host that replies. Otherwise it goes to the end of the queue.
func (q *Queue) rejoin(ctx context.Context, failed *plan.Error) error {
	p := &q.position
	hadTicket := p.earlierRequests != nil
	p.hasTicket, p.changed = false, true
	if old := q.host; old.Lost() != nil {
		why := usererr.Reason(old.Lost())
		if err := q.reconnectQueueHost(ctx, old.Definition(), why); err != nil {
			return err
		}
		if hadTicket {
			return q.moveTo(ctx, failed, fmt.Sprintf("lost contact with the queue host %s (%s); the request now waits in the queue on %s", old.Name(), why, q.host.Name()))
		}
	} else {
		q.env.Say(fmt.Sprintf("the request lost its place in the queue: %s; it waits again at the end of the queue", p.lostWhy))
	}
	if err := q.enqueueLast(ctx, failed); err != nil && q.host.Lost() == nil {
		return err
	}
	return context.Cause(ctx)
}

// moveTo puts the request into the queue at the new queue host. There it waits only for requests that were ahead
// of it at the old host. text is printed with the new position.
func (q *Queue) moveTo(ctx context.Context, failed *plan.Error, text string) error {
	p := &q.position
	m := &hostMove{earlierAhead: p.ahead, earlierSeen: make(map[job.ID]bool), until: time.Now().Add(maxMoveWait)}
	if err := q.waitAndReceive(ctx, time.Duration(m.earlierAhead)*moveStep); err != nil {
		return err
	}
	p.moved = m
	if q.host.Lost() == nil {
		if err := q.enqueue(ctx, failed); err != nil && q.host.Lost() == nil {
			return err
		}
	}
	if q.host.Lost() != nil { // lost again: WaitForChance handles that
		p.ahead = m.earlierAhead
		return context.Cause(ctx)
	}
	if err := q.recount(ctx); err != nil {
		return err
	}
	q.env.Say(fmt.Sprintf("%s, position %d of %d", text, p.ahead+1, max(p.total, p.ahead+1)))
	return context.Cause(ctx)
}

// recount counts the requests that come before a request which has moved to another queue host. Some of them
// wait at that host already, and others have not arrived yet.
func (q *Queue) recount(ctx context.Context) error {
	p := &q.position
	tickets, err := q.ticketsOf(ctx, q.host)
	if err != nil || q.host.Lost() != nil {
		return err
	}
	now := time.Now()
	p.moved.next, p.total = now.Add(recountEvery), len(tickets)
	p.ahead, p.head = 0, job.Ticket{}
	for _, t := range tickets {
		if !p.earlierRequests[t.Job] || t.Job == q.req.Job {
			continue
		}
		if p.ahead++; p.head.Job == "" {
			p.head = t
		}
		p.moved.earlierSeen[t.Job] = true
	}
	if now.Before(p.moved.until) {
		p.ahead += max(0, p.moved.earlierAhead-len(p.moved.earlierSeen))
	}
	return nil
}

// noteEarlierRequests records the requests that have been waiting longer than this one. These are the
// requests that come before it in the queue of its own queue host.
func (q *Queue) noteEarlierRequests(ctx context.Context) error {
	tickets, err := q.ticketsOf(ctx, q.host)
	var own int64
	for _, t := range tickets {
		if t.Job == q.req.Job {
			own = t.Number
		}
	}
	for _, t := range tickets {
		if t.Number < own {
			q.position.earlierRequests[t.Job] = true
		}
	}
	return err
}

// reconnectQueueHost connects to the first queue host of the list that replies. It keeps trying until one of them
// replies.
func (q *Queue) reconnectQueueHost(ctx context.Context, lastHost job.NodeDef, reason string) error {
	for delay := minRejoin; !q.connectNextQueueHost(ctx, lastHost); delay = min(2*delay, maxRejoin) {
		q.env.SayOnce(fmt.Sprintf("lost contact with the queue host %s (%s), and no other queue host answers; mpiexec tries again until one does", lastHost.Name, reason))
		if err := q.waitAndReceive(ctx, delay); err != nil {
			return err
		}
	}
	return nil
}

// connectNextQueueHost connects to all queue hosts that are not connected, all at the same time, and chooses
// the first of the list that replies. After the first reply it waits up to three seconds for the others (rule
// SV-36).
func (q *Queue) connectNextQueueHost(ctx context.Context, lastHost job.NodeDef) bool {
	queueHosts := q.req.Queue.QueueHosts()
	if len(queueHosts) == 0 {
		queueHosts = []job.NodeDef{lastHost}
	}
	q.helpers.ConnectTo(ctx, queueHosts)
	var found []Host
	for _, host := range queueHosts {
		if n := q.helpers.FindHost(host.Name); n != nil {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return false
	}
	q.host, q.otherHosts = found[0], found[1:]
	return true
}
