package reserve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/plan"
	"remshell/wire"
)

/*
A position is that of a request in the queue (placement.md 6). A file on the queue host,
locked by the helper there, is the position; it is gone when the helper is, and the helper
when we are.

	in the middle   one connection, to the queue host; Queued tells of each step ahead
	at the head     one to each node as well; any change there is worth another attempt

Nobody passes: who has no ticket and finds one is refused, or goes to the end. But a launch
from inside a rank, on CPUs that its own job has, concerns nobody else; and those ahead may
wait for the very job that waits for it.
*/
type position struct {
	held         bool
	ahead, total int
	lost         string    // why there is no place any more; empty: there is, or never was
	news         bool      // something changed at a node
	began        time.Time // of waiting; zero: it has not come to that
	told         string    // the last line the user saw

	elders map[job.ID]bool // those that waited when we came, at any queue host; nil: we did not come to wait
	moved  *move           // from a queue host that was lost; nil: it is the first one

	head  job.Ticket // the first of those ahead
	watch headWatch  // of it
}

// Times of waiting (placement.md 6.5, 6.7).
const (
	tellAfter   = 2 * time.Second
	tryAgain    = 100 * time.Millisecond // at the earliest, however much changes
	tryAnyway   = 10 * time.Second       // however quiet the nodes are
	tryJitter   = 2 * time.Second
	redialFirst = 5 * time.Second // doubling
	redialMost  = time.Minute
	rejoinFirst = time.Second // at the queue host, doubling
	rejoinMost  = 30 * time.Second
)

// errWaited is why a request ends that has waited for as long as it may.
var errWaited = errors.New("the longest time to wait has passed")

// unreachable is the code of a request that waits for hosts its user named.
const unreachable = "unreachable"

// A redial is a candidate that is down, while the request waits.
type redial struct {
	at    time.Time // of the next attempt
	delay time.Duration
	busy  bool // an attempt is under way
}

// reconnected is what came of one.
type reconnected struct {
	def  job.NodeDef
	node *node.Node
	err  error
}

// A Leftover is an event of a reservation that comes when it is over. Who takes events out of the
// inbox then has to drop it.
type Leftover interface{ Drop() }

// Drop lets a node go that was reached too late.
func (e reconnected) Drop() {
	if e.node != nil {
		go e.node.Close()
	}
}

// patience is a context that ends when the request has waited for as long as it may, and
// at the latest with the function that is returned.
func (r *reservation) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if limit := r.req.Limits.Wait; limit > 0 {
		return r.env.Pauses.Within(ctx, limit, errWaited)
	}
	return context.WithCancel(ctx)
}

// wait returns when another attempt is worth while: when the request has come to the
// head, and then whenever something has changed. An error ends the request.
func (r *reservation) wait(ctx context.Context, failed *plan.Error) error {
	q := &r.position
	now := time.Now()
	retry := now.Add(tryAnyway + rand.N(tryJitter))
	if over := now.Add(failed.Left); failed.Code == plan.Delayed && over.Before(retry) {
		retry = over // and then it takes what there is
	}
	calm := now.Add(tryAgain)
	behind := false
	r.aside = ""
	for ctx.Err() == nil {
		now = time.Now()
		r.tell(failed, now)
		switch {
		case !r.granted() && (!q.held || r.queue.lost != nil):
			if err := r.rejoin(ctx, failed); err != nil {
				return err
			}
		case q.moved != nil && !now.Before(q.moved.next):
			if err := r.recount(ctx); err != nil {
				return err
			}
		case q.ahead > 0 && !r.inside:
			if r.watchHead(ctx, now); r.aside != "" {
				return nil
			}
			if behind = true; r.position.watch.looks == 0 {
				r.scatter()
			}
		case behind || q.news && !now.Before(calm) || !now.Before(retry):
			q.news = false
			return nil
		default:
			r.watch(ctx, now)
		}
		if q.news {
			retry = calm
		}
		for _, event := range r.events(ctx, r.wake(now, retry)) {
			r.handle(event)
		}
	}
	return context.Cause(ctx)
}

// wake is when a waiting request has something to do though nothing happened.
func (r *reservation) wake(now, retry time.Time) time.Time {
	next := now.Add(tryAnyway)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if r.position.told == "" {
		earlier(r.position.began.Add(tellAfter))
	}
	if r.position.ahead > 0 && !r.inside && r.judgesHead() {
		earlier(r.position.watch.next)
	}
	if r.position.moved != nil {
		earlier(r.position.moved.next)
	}
	if r.position.ahead == 0 || r.inside {
		earlier(retry)
		for _, rd := range r.retries {
			if !rd.busy {
				earlier(rd.at)
			}
		}
	}
	return next
}

// tell says where we stand: after a while, and whenever it has changed.
func (r *reservation) tell(failed *plan.Error, now time.Time) {
	q := &r.position
	if now.Sub(q.began) < tellAfter || !q.held && !r.granted() {
		return
	}
	why := failed.Code
	switch {
	case why == plan.Delayed:
		why += ": for a better one until " + r.headSince.Add(r.req.Set.Delay).Format(time.TimeOnly)
	case failed.Wanted > 0:
		why += fmt.Sprintf(": %d wanted, %d free", failed.Wanted, failed.Free)
	case why == unreachable:
		why += ": " + failed.Text
	}
	text := fmt.Sprintf("waiting for resources, position %d of %d (%s)", q.ahead+1, max(q.total, q.ahead+1), why)
	if r.granted() {
		text = fmt.Sprintf("waiting for other launches in %s (%s)", r.req.RM.ID(), why)
	}
	if text != q.told {
		q.told = text
		r.env.Say(text)
	}
}

// handle takes what nobody asked for.
func (r *reservation) handle(event any) {
	switch e := event.(type) {
	case disconnected:
		if e.from.lost == nil { // else we have given it up
			e.from.lost = e.err
		}
		delete(r.byNode, e.from.Node)
		go e.from.Close()
		r.position.news = true
	case reconnected:
		r.reconnected(e)
	case message:
		switch m := e.m.(type) {
		case *wire.Changed:
			r.position.news = true
		case *wire.Queued:
			q := &r.position
			if q.held, q.lost = m.Err == "", m.Err; q.moved != nil {
				q.moved.next = time.Time{} // numbers do not count
				break
			}
			q.ahead, q.total, q.head = m.Ahead, m.Total, m.Head
		}
	}
}

// scatter lets all helpers go but that of the queue host: who waits in the middle needs no
// other (placement.md 6.5).
func (r *reservation) scatter() {
	if !r.connected {
		return
	}
	for _, n := range r.hosts {
		if n != r.queue {
			n.Send(&wire.Bye{})
			go n.Close()
		}
	}
	r.keep(func(n *host) bool { return n == r.queue })
	r.connected = false
	clear(r.errs)
}

// watch has the nodes tell of changes, and tries those again that are down.
func (r *reservation) watch(ctx context.Context, now time.Time) {
	r.watchClaims()
	if due := r.due(now); len(due) > 0 {
		env := &r.env
		go func() {
			for c := range env.Connect(ctx, due) {
				env.Inbox.Put(reconnected{due[c.At], c.Node, c.Err})
			}
		}()
	}
}

// watchClaims has those nodes tell of changes that do not yet.
func (r *reservation) watchClaims() {
	for _, n := range r.hosts {
		if !n.watched && n.lost == nil {
			n.watched = true
			n.Send(&wire.Watch{Ledger: r.req.Queue.Ledger})
		}
	}
}

// due are the candidates that are down and whose next attempt is now.
func (r *reservation) due(now time.Time) (defs []job.NodeDef) {
	for _, def := range r.req.Nodes {
		if r.errs[def.Name] == nil {
			continue
		}
		rd := r.retries[def.Name]
		if rd == nil {
			rd = &redial{at: now.Add(redialFirst), delay: redialFirst}
			r.retries[def.Name] = rd
		}
		if !rd.busy && !now.Before(rd.at) {
			rd.busy = true
			defs = append(defs, def)
		}
	}
	return defs
}

// reconnected takes a node in that is back, or lets it rest a while longer.
func (r *reservation) reconnected(e reconnected) {
	rd := r.retries[e.def.Name]
	if e.err != nil {
		r.errs[e.def.Name] = e.err
		rd.busy, rd.delay = false, min(2*rd.delay, redialMost)
		rd.at = time.Now().Add(rd.delay)
		return
	}
	delete(r.retries, e.def.Name)
	delete(r.errs, e.def.Name)
	r.take(e.def, e.node)
	r.position.news = true
}

// rest waits, and hears meanwhile what is said.
func (r *reservation) rest(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	for time.Now().Before(until) && ctx.Err() == nil {
		for _, event := range r.events(ctx, until) {
			r.handle(event)
		}
	}
	return context.Cause(ctx)
}
