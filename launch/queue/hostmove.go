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
A move is that of a waiting request to another queue host, since its own was lost (survive.md SV-39). All who
waited there come within the same moments, in any order, and each takes the next number; so numbers do
not tell any more who is ahead. But each knows whom it had before it when it began to wait: those are its
elders, wherever they are now (SV-37), and nobody else counts.

	old position x 50 ms --> ticket on the next host --> elders there, and those that are still to come
	                                                        | each second
	                                                        '--> none: it is the head

As many elders are still to come as were ahead when the host was lost and have not been seen since; for
them it waits no longer than a helper waits for an mpiexec that says nothing.
*/
type hostMove struct {
	eldersAhead int             // elders that were still ahead when the host was lost
	eldersSeen  map[job.ID]bool // of them, at the new one
	until       time.Time       // how long the others are waited for
	next        time.Time       // when to count again
}

// Times of a move.
const (
	moveStep     = 50 * time.Millisecond // for each position
	maxMoveWait  = 15 * time.Second
	recountEvery = time.Second
)

// rejoin queues again when the place was lost: with its queue host, where that is kept by the next one that
// answers; else at the end.
func (q *Queue) rejoin(ctx context.Context, failed *plan.Error) error {
	at := &q.position
	held := at.elders != nil
	at.hasPlace, at.changed = false, true
	if old := q.host; old.Lost() != nil {
		why := usererr.Reason(old.Lost())
		if err := q.reconnectQueueHost(ctx, old.Definition(), why); err != nil {
			return err
		}
		if held {
			return q.moveTo(ctx, failed, fmt.Sprintf("the queue host %s is lost (%s); queueing on %s", old.Name(), why, q.host.Name()))
		}
	} else {
		q.env.Say(fmt.Sprintf("lost the place in the queue: %s; queueing again at the end", at.lostWhy))
	}
	if err := q.enqueueLast(ctx, failed); err != nil && q.host.Lost() == nil {
		return err
	}
	return context.Cause(ctx)
}

// moveTo takes a place at the queue host that was found, behind the elders alone, and says so (T16).
func (q *Queue) moveTo(ctx context.Context, failed *plan.Error, text string) error {
	at := &q.position
	m := &hostMove{eldersAhead: at.ahead, eldersSeen: make(map[job.ID]bool), until: time.Now().Add(maxMoveWait)}
	if err := q.waitAndReceive(ctx, time.Duration(m.eldersAhead)*moveStep); err != nil {
		return err
	}
	at.moved = m
	if q.host.Lost() == nil {
		if err := q.enqueue(ctx, failed); err != nil && q.host.Lost() == nil {
			return err
		}
	}
	if q.host.Lost() != nil { // at once again: wait sees to that
		at.ahead = m.eldersAhead
		return context.Cause(ctx)
	}
	if err := q.recount(ctx); err != nil {
		return err
	}
	q.env.Say(fmt.Sprintf("%s, position %d of %d", text, at.ahead+1, max(at.total, at.ahead+1)))
	return context.Cause(ctx)
}

// recount counts the elders of a request that has moved: those that wait at its queue host, and those
// that are still to come.
func (q *Queue) recount(ctx context.Context) error {
	at := &q.position
	tickets, err := q.ticketsOf(ctx, q.host)
	if err != nil || q.host.Lost() != nil {
		return err
	}
	now := time.Now()
	at.moved.next, at.total = now.Add(recountEvery), len(tickets)
	at.ahead, at.head = 0, job.Ticket{}
	for _, t := range tickets {
		if !at.elders[t.Job] || t.Job == q.req.Job {
			continue
		}
		if at.ahead++; at.head.Job == "" {
			at.head = t
		}
		at.moved.eldersSeen[t.Job] = true
	}
	if now.Before(at.moved.until) {
		at.ahead += max(0, at.moved.eldersAhead-len(at.moved.eldersSeen))
	}
	return nil
}

// noteElders notes who waits before us at our own queue host.
func (q *Queue) noteElders(ctx context.Context) error {
	tickets, err := q.ticketsOf(ctx, q.host)
	var own int64
	for _, t := range tickets {
		if t.Job == q.req.Job {
			own = t.Number
		}
	}
	for _, t := range tickets {
		if t.Number < own {
			q.position.elders[t.Job] = true
		}
	}
	return err
}

// reconnectQueueHost reaches a queue host anew: the first of the list that answers, again and again until one does.
func (q *Queue) reconnectQueueHost(ctx context.Context, last job.NodeDef, why string) error {
	for delay := minRejoin; !q.connectNextQueueHost(ctx, last); delay = min(2*delay, maxRejoin) {
		q.env.SayOnce(fmt.Sprintf("the queue host %s is lost (%s), and no other one answers; trying again until one does", last.Name, why))
		if err := q.waitAndReceive(ctx, delay); err != nil {
			return err
		}
	}
	return nil
}

// connectNextQueueHost connects to all queue hosts that are not connected, at once, and takes the first of the list that
// answers; the dead cost no more than three seconds behind it (SV-36).
func (q *Queue) connectNextQueueHost(ctx context.Context, last job.NodeDef) bool {
	keepers := q.req.Queue.QueueHosts()
	if len(keepers) == 0 {
		keepers = []job.NodeDef{last}
	}
	q.helpers.ConnectTo(ctx, keepers)
	var found []Host
	for _, host := range keepers {
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
