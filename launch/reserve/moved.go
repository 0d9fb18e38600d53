package reserve

import (
	"context"
	"fmt"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/plan"
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
type move struct {
	ahead int             // elders that were still ahead when the host was lost
	seen  map[job.ID]bool // of them, at the new one
	until time.Time       // how long the others are waited for
	next  time.Time       // when to count again
}

// Times of a move.
const (
	moveStep   = 50 * time.Millisecond // for each position
	moveWait   = 15 * time.Second
	recountAll = time.Second
)

// rejoin queues again when the place was lost: with its queue host, where that is kept by the next one that
// answers; else at the end.
func (r *reservation) rejoin(ctx context.Context, failed *plan.Error) error {
	q := &r.position
	held := q.elders != nil
	q.held, q.news = false, true
	if old := r.queue; old.lost != nil {
		why := fault.Reason(old.lost)
		if err := r.anyQueue(ctx, old.def, why); err != nil {
			return err
		}
		if held {
			return r.moveTo(ctx, failed, fmt.Sprintf("the queue host %s is lost (%s); queueing on %s", old.def.Name, why, r.queue.def.Name))
		}
	} else {
		r.env.Say(fmt.Sprintf("lost the place in the queue: %s; queueing again at the end", q.lost))
	}
	if err := r.join(ctx, failed); err != nil && r.queue.lost == nil {
		return err
	}
	return context.Cause(ctx)
}

// moveTo takes a place at the queue host that was found, behind the elders alone, and says so (T16).
func (r *reservation) moveTo(ctx context.Context, failed *plan.Error, text string) error {
	q := &r.position
	m := &move{ahead: q.ahead, seen: make(map[job.ID]bool), until: time.Now().Add(moveWait)}
	if err := r.rest(ctx, time.Duration(m.ahead)*moveStep); err != nil {
		return err
	}
	q.moved = m
	if r.queue.lost == nil {
		if err := r.enqueue(ctx, failed); err != nil && r.queue.lost == nil {
			return err
		}
	}
	if r.queue.lost != nil { // at once again: wait sees to that
		q.ahead = m.ahead
		return context.Cause(ctx)
	}
	if err := r.recount(ctx); err != nil {
		return err
	}
	r.env.Say(fmt.Sprintf("%s, position %d of %d", text, q.ahead+1, max(q.total, q.ahead+1)))
	return context.Cause(ctx)
}

// recount counts the elders of a request that has moved: those that wait at its queue host, and those
// that are still to come.
func (r *reservation) recount(ctx context.Context) error {
	q := &r.position
	tickets, err := r.ticketsOf(ctx, r.queue)
	if err != nil || r.queue.lost != nil {
		return err
	}
	now := time.Now()
	q.moved.next, q.total = now.Add(recountAll), len(tickets)
	q.ahead, q.head = 0, job.Ticket{}
	for _, t := range tickets {
		if !q.elders[t.Job] || t.Job == r.req.Job {
			continue
		}
		if q.ahead++; q.head.Job == "" {
			q.head = t
		}
		q.moved.seen[t.Job] = true
	}
	if now.Before(q.moved.until) {
		q.ahead += max(0, q.moved.ahead-len(q.moved.seen))
	}
	return nil
}

// noteElders notes who waits before us at our own queue host.
func (r *reservation) noteElders(ctx context.Context) error {
	tickets, err := r.ticketsOf(ctx, r.queue)
	var own int64
	for _, t := range tickets {
		if t.Job == r.req.Job {
			own = t.Number
		}
	}
	for _, t := range tickets {
		if t.Number < own {
			r.position.elders[t.Job] = true
		}
	}
	return err
}

// anyQueue reaches a queue host anew: the first of the list that answers, again and again until one does.
func (r *reservation) anyQueue(ctx context.Context, last job.NodeDef, why string) error {
	for delay := rejoinFirst; !r.nextQueue(ctx, last); delay = min(2*delay, rejoinMost) {
		r.sayOnce(fmt.Sprintf("the queue host %s is lost (%s), and no other one answers; trying again until one does", last.Name, why))
		if err := r.rest(ctx, delay); err != nil {
			return err
		}
	}
	return nil
}

// nextQueue connects to all queue hosts that are not connected, at once, and takes the first of the list that
// answers; the dead cost no more than spareTime behind it (SV-36).
func (r *reservation) nextQueue(ctx context.Context, last job.NodeDef) bool {
	keepers := r.req.Queue.Keepers()
	if len(keepers) == 0 {
		keepers = []job.NodeDef{last}
	}
	r.keep(func(h *host) bool { return h.lost == nil })
	var wanted []job.NodeDef
	for _, host := range keepers {
		if !r.has(host) {
			wanted = append(wanted, host)
		}
	}
	spare, give := context.WithCancelCause(ctx)
	defer give(nil)
	late := func() *time.Timer { return time.AfterFunc(spareTime, func() { give(errSilent) }) }
	if len(wanted) < len(keepers) {
		defer late().Stop()
	}
	r.connectSet(spare, wanted, 0, func(i int, c node.Connected) {
		if r.errs[wanted[i].Name] = c.Err; c.Err == nil {
			late()
			delete(r.errs, wanted[i].Name)
			r.take(wanted[i], c.Node)
		}
	})
	var found []*host
	for _, host := range keepers {
		if n := r.find(host); n != nil {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return false
	}
	r.queue, r.queues = found[0], found[1:]
	return true
}
