package launch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

Nobody passes: who has no ticket and finds one is refused, or goes to the end.
*/
type spot struct {
	held         bool
	ahead, total int
	lost         string    // why there is no place any more; empty: there is, or never was
	news         bool      // something changed at a node
	began        time.Time // of waiting; zero: this request does not wait
	told         string    // the last line the user saw
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

// chooseQueue finds the helper that keeps the queue: that of the queue host, or of the
// first node where no cluster file names one.
func (b *booking) chooseQueue() error {
	f, host := b.fleet, b.req.Queue.Host
	f.queue = nil
	for _, n := range f.all {
		keeps := host == nil && b.candidate(n) || host != nil && n.def.Same(*host)
		if keeps && (f.queue == nil || n.def.ID < f.queue.def.ID) {
			f.queue = n
		}
	}
	if f.queue != nil || host == nil {
		return nil
	}
	why := "it was not reached"
	if err := b.errs[host.Name]; err != nil {
		why = reasonOf(err)
	}
	if !b.req.Queue.Required {
		b.sayOnce(fmt.Sprintf("the queue host %s cannot be reached (%s): starting without regard to the queue", host.Name, why))
		return nil
	}
	return queueUnreachable(host.Name, why)
}

func queueUnreachable(name, why string) error {
	return &StartError{fmt.Sprintf("queue-unreachable: the queue host %s cannot be reached: %s", name, why),
		"name another queueHost in the cluster file, or say queueRequired = false there", ExitInternal}
}

// enter waits for the gate of the queue, and learns how many requests are before us.
func (b *booking) enter(ctx context.Context) error {
	q := b.fleet.queue
	if q == nil {
		return nil
	}
	err := b.ask(ctx, []*node{q}, func(*node) wire.Message { return &wire.Gate{Ledger: b.req.Queue.Ledger} },
		func(_ *node, m wire.Message) bool {
			gated, ok := m.(*wire.Gated)
			if ok {
				b.snap.Ahead = gated.Ahead
				if gated.Notice != "" {
					b.sayOnce(q.def.Name + ": " + gated.Notice)
				}
			}
			return ok
		})
	if err == nil && q.lost != nil && !b.req.Wait {
		return queueUnreachable(q.def.Name, reasonOf(q.lost))
	}
	return err
}

// ungate lets others decide.
func (b *booking) ungate() {
	if q := b.fleet.queue; q != nil {
		q.conn.Send(&wire.Ungate{})
	}
}

// countWaiting learns how many requests wait, without the gate.
func (b *booking) countWaiting(ctx context.Context) error {
	q := b.fleet.queue
	if q == nil {
		return nil
	}
	return b.ask(ctx, []*node{q}, func(*node) wire.Message { return &wire.List{Ledger: b.req.Queue.Ledger} },
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
	if b.fleet.queue == nil {
		return queueUnreachable("", "there is none")
	}
	if err := b.join(ctx); err != nil {
		return err
	}
	return failed
}

// join takes a place at the end of the queue.
func (b *booking) join(ctx context.Context) error {
	t := job.Ticket{Job: b.req.Job, UID: b.req.User.UID, User: b.req.User.Name, From: b.req.Queue.From,
		Since: time.Now(), Summary: command(b.req)}
	for _, app := range b.req.Apps {
		t.Size += app.N
	}
	err := b.ask(ctx, []*node{b.fleet.queue}, func(*node) wire.Message { return &wire.Enqueue{Ledger: b.req.Queue.Ledger, Ticket: t} },
		func(n *node, m wire.Message) bool {
			if _, ok := m.(*wire.Queued); !ok {
				return false
			}
			b.hear(said{n, m})
			return true
		})
	if err == nil && !b.spot.held {
		return queueUnreachable(b.fleet.queue.def.Name, b.spot.lost)
	}
	return err
}

// wait returns when another attempt is worth while: when the request has come to the
// head, and then whenever something has changed. An error ends the request.
func (b *booking) wait(ctx context.Context, failed *plan.Error) error {
	q := &b.spot
	now := time.Now()
	if q.began.IsZero() {
		q.began = now
	}
	retry := now.Add(tryAnyway + rand.N(tryJitter))
	calm := now.Add(tryAgain)
	ping := now.Add(wire.PingEvery)
	behind := false
	for ctx.Err() == nil {
		now = time.Now()
		b.tell(failed, now)
		switch {
		case b.req.Limits.Wait > 0 && now.Sub(q.began) >= b.req.Limits.Wait:
			failed.Position, failed.Text = 0, fmt.Sprintf("%s; waited %s", failed.Text, clock(now.Sub(q.began)))
			return failed
		case !q.held || b.fleet.queue.lost != nil:
			if err := b.rejoin(ctx); err != nil {
				return err
			}
		case q.ahead > 0:
			behind = true
			b.scatter()
		case behind || q.news && now.After(calm) || now.After(retry):
			q.news = false
			return nil
		default:
			b.watch(ctx, now)
		}
		if q.news {
			retry = calm
		}
		if now.After(ping) {
			b.fleet.queue.conn.Send(&wire.Ping{})
			ping = now.Add(wire.PingEvery)
		}
		for _, event := range b.events.take(ctx, b.wake(now, ping, retry)) {
			b.hear(event)
		}
	}
	return context.Cause(ctx)
}

// wake is when a waiting request has something to do though nothing happened.
func (b *booking) wake(now, ping, retry time.Time) time.Time {
	next := ping
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if b.spot.told == "" {
		earlier(b.spot.began.Add(tellAfter))
	}
	if limit := b.req.Limits.Wait; limit > 0 {
		earlier(b.spot.began.Add(limit))
	}
	if b.spot.ahead == 0 {
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
	if failed.Wanted > 0 {
		why += fmt.Sprintf(": %d wanted, %d free", failed.Wanted, failed.Free)
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
		e.from.lost = e.err
		b.spot.news = true
	case redialed:
		b.redialed(e)
	case said:
		switch m := e.m.(type) {
		case *wire.Changed:
			b.spot.news = true
		case *wire.Queued:
			q := &b.spot
			q.held, q.lost, q.ahead, q.total = m.Err == "", m.Err, m.Ahead, m.Total
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
			n.conn.Send(&wire.Bye{})
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
			n.conn.Send(&wire.Watch{Ledger: b.req.Queue.Ledger})
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

// rejoin goes to the end of the queue when the place was lost.
func (b *booking) rejoin(ctx context.Context) error {
	q := b.fleet.queue
	why := b.spot.lost
	if q.lost != nil {
		why = fmt.Sprintf("lost contact with %s (%s)", q.def.Name, reasonOf(q.lost))
	}
	b.env.Say(fmt.Sprintf("lost the place in the queue: %s; queueing again at the end", why))
	b.spot.held = false
	for delay := rejoinFirst; q.lost != nil; delay = min(2*delay, rejoinMost) {
		n, err := reachNode(ctx, q.def, b.env)
		if err == nil {
			b.replaceQueue(n)
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

// replaceQueue takes a new helper of the queue host.
func (b *booking) replaceQueue(n *node) {
	b.fleet.all = slices.DeleteFunc(b.fleet.all, func(old *node) bool { return old == b.fleet.queue })
	b.fleet.all = append(b.fleet.all, n)
	b.fleet.queue = n
	delete(b.errs, n.def.Name)
	go b.fleet.read(n)
}

// rest waits, and hears meanwhile what is said.
func (b *booking) rest(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	if limit := b.req.Limits.Wait; limit > 0 && b.spot.began.Add(limit).Before(until) {
		until = b.spot.began.Add(limit)
	}
	for time.Now().Before(until) && ctx.Err() == nil {
		for _, event := range b.events.take(ctx, until) {
			b.hear(event)
		}
	}
	return context.Cause(ctx)
}

// leaveQueue gives the place up: the job has its nodes.
func (b *booking) leaveQueue() {
	if b.spot.held {
		b.fleet.queue.conn.Send(&wire.Dequeue{})
	}
	if b.spot.told != "" {
		b.env.Say("starting now, waited " + clock(time.Since(b.spot.began)))
	}
}
