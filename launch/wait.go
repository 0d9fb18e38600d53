package launch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"remshell/job"
	"remshell/plan"
	"remshell/wire"
)

/*
A spot is the place of a request in the queue (placement.md 6). A file on the queue host,
locked by the helper there, is the place; it is gone when the helper is, and the helper
when we are.

	in the middle   one connection, to the queue host; Queued tells of each step ahead
	at the head     one to each node as well; any change there is worth another attempt

Nobody passes: who has no ticket and finds one is refused, or goes to the end. But a launch
from inside a rank, on CPUs that its own job has, concerns nobody else; and those ahead may
wait for the very job that waits for it.
*/
type spot struct {
	held         bool
	ahead, total int
	lost         string    // why there is no place any more; empty: there is, or never was
	news         bool      // something changed at a node
	began        time.Time // of waiting; zero: it has not come to that
	told         string    // the last line the user saw

	elders map[job.ID]bool // those that waited at other queue hosts when we came

	head   job.Ticket // the first of those ahead
	regard regard     // of it
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

// A redialed is what came of one.
type redialed struct {
	def  job.NodeDef
	node *node
	err  error
}

// patience is a context that ends when the request has waited for as long as it may, and
// at the latest with the function that is returned.
func (b *booking) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if limit := b.req.Limits.Wait; limit > 0 {
		return b.env.pauses.within(ctx, limit, errWaited)
	}
	return context.WithCancel(ctx)
}

// wait returns when another attempt is worth while: when the request has come to the
// head, and then whenever something has changed. An error ends the request.
func (b *booking) wait(ctx context.Context, failed *plan.Error) error {
	q := &b.spot
	now := time.Now()
	retry := now.Add(tryAnyway + rand.N(tryJitter))
	calm := now.Add(tryAgain)
	behind := false
	b.aside = ""
	for ctx.Err() == nil {
		now = time.Now()
		b.tell(failed, now)
		switch {
		case !q.held || b.fleet.queue.lost != nil:
			if err := b.rejoin(ctx); err != nil {
				return err
			}
		case q.ahead > 0 && !b.inside:
			if b.regardHead(ctx, now); b.aside != "" {
				return nil
			}
			if behind = true; b.spot.regard.looks == 0 {
				b.scatter()
			}
		case behind || q.news && !now.Before(calm) || !now.Before(retry):
			q.news = false
			return nil
		default:
			b.watch(ctx, now)
		}
		if q.news {
			retry = calm
		}
		for _, event := range b.events.take(ctx, b.wake(now, retry)) {
			b.hear(event)
		}
	}
	return context.Cause(ctx)
}

// wake is when a waiting request has something to do though nothing happened.
func (b *booking) wake(now, retry time.Time) time.Time {
	next := now.Add(tryAnyway)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if b.spot.told == "" {
		earlier(b.spot.began.Add(tellAfter))
	}
	if b.spot.ahead > 0 && !b.inside {
		earlier(b.spot.regard.next)
	}
	if b.spot.ahead == 0 || b.inside {
		earlier(retry)
		for _, r := range b.retries {
			if !r.busy {
				earlier(r.at)
			}
		}
	}
	return next
}

// tell says where we stand: after a while, and whenever it has changed.
func (b *booking) tell(failed *plan.Error, now time.Time) {
	q := &b.spot
	if now.Sub(q.began) < tellAfter || !q.held {
		return
	}
	why := failed.Code
	switch {
	case failed.Wanted > 0:
		why += fmt.Sprintf(": %d wanted, %d free", failed.Wanted, failed.Free)
	case why == unreachable:
		why += ": " + failed.Text
	}
	text := fmt.Sprintf("waiting for resources, position %d of %d (%s)", q.ahead+1, max(q.total, q.ahead+1), why)
	if text != q.told {
		q.told = text
		b.env.Say(text)
	}
}

// hear takes what nobody asked for.
func (b *booking) hear(event any) {
	switch e := event.(type) {
	case ended:
		if e.from.lost == nil { // else we have given it up
			e.from.lost = e.err
		}
		go e.from.conn.Close()
		b.spot.news = true
	case redialed:
		b.redialed(e)
	case said:
		switch m := e.m.(type) {
		case *wire.Changed:
			b.spot.news = true
		case *wire.Queued:
			q := &b.spot
			q.held, q.lost, q.ahead, q.total, q.head = m.Err == "", m.Err, m.Ahead, m.Total, m.Head
		}
	}
}

// scatter lets all helpers go but that of the queue host: who waits in the middle needs no
// other (placement.md 6.5).
func (b *booking) scatter() {
	if !b.mustered {
		return
	}
	for _, n := range b.fleet.all {
		if n != b.fleet.queue {
			n.send(&wire.Bye{})
			go n.conn.Close()
		}
	}
	b.fleet.all = []*node{b.fleet.queue}
	b.mustered = false
	clear(b.errs)
}

// watch has the nodes tell of changes, and tries those again that are down.
func (b *booking) watch(ctx context.Context, now time.Time) {
	for _, n := range b.fleet.all {
		if !n.watched && n.lost == nil {
			n.watched = true
			n.send(&wire.Watch{Ledger: b.req.Queue.Ledger})
		}
	}
	for _, def := range b.req.Nodes {
		if b.errs[def.Name] == nil {
			continue
		}
		r := b.retries[def.Name]
		if r == nil {
			r = &redial{at: now.Add(redialFirst), delay: redialFirst}
			b.retries[def.Name] = r
		}
		if !r.busy && !now.Before(r.at) {
			r.busy = true
			go func() {
				n, err := reachNode(ctx, def, b.env)
				b.events.put(redialed{def, n, err})
			}()
		}
	}
}

// redialed takes a node in that is back, or lets it rest a while longer.
func (b *booking) redialed(e redialed) {
	r := b.retries[e.def.Name]
	if e.err != nil {
		b.errs[e.def.Name] = e.err
		r.busy, r.delay = false, min(2*r.delay, redialMost)
		r.at = time.Now().Add(r.delay)
		return
	}
	delete(b.retries, e.def.Name)
	delete(b.errs, e.def.Name)
	b.fleet.all = append(b.fleet.all, e.node)
	go b.fleet.read(e.node)
	b.spot.news = true
}

// rest waits, and hears meanwhile what is said.
func (b *booking) rest(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	for time.Now().Before(until) && ctx.Err() == nil {
		for _, event := range b.events.take(ctx, until) {
			b.hear(event)
		}
	}
	return context.Cause(ctx)
}
