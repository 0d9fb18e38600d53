package reserve

import (
	"context"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/queue"
	"remshell/wire"
)

// This file is what the queue (package queue) has of a reservation: its hosts, and those that are tried again while
// the request waits.

// A queueCrew is the helpers of a reservation, as its queue sees them. A host of the queue's is a host of ours.
type queueCrew struct{ r *reservation }

// newQueue is the queue of a reservation.
func (r *reservation) newQueue() *queue.Queue {
	return queue.New(&r.req, queueCrew{r}, queue.Env{Pauses: r.env.Pauses, Log: r.env.Log, Say: r.env.Say, SayOnce: r.sayOnce, Answer: r.answerTime()})
}

func (n *host) Lost() error             { return n.lost }
func (n *host) Definition() job.NodeDef { return n.def }

func (c queueCrew) Find(name string) queue.Host {
	if n := c.r.find(job.NodeDef{Name: name}); n != nil {
		return n
	}
	return nil
}

func (c queueCrew) First() queue.Host {
	reached := c.r.reached()
	if len(reached) == 0 {
		return nil
	}
	return slices.MinFunc(reached, func(x, y *host) int { return x.def.ID - y.def.ID })
}

func (c queueCrew) Alone() bool { return len(c.r.hosts) == 1 && c.r.hosts[0].def.Local }

func (c queueCrew) Why(name string) error {
	if err := c.r.errs[name]; err != nil {
		return err
	}
	if n := c.r.byName[name]; n != nil {
		return n.lost
	}
	return nil
}

func (c queueCrew) Hostname(name string) string {
	if n := c.r.byName[name]; n != nil {
		return n.probe.Hostname
	}
	return ""
}

func (c queueCrew) Ask(ctx context.Context, limit time.Duration, n queue.Host, question wire.Message, heard func(wire.Message) bool) error {
	return c.r.ask(ctx, limit, []*host{n.(*host)}, func(*host) wire.Message { return question },
		func(_ *host, m wire.Message) bool { return heard(m) })
}

func (c queueCrew) Hear(ctx context.Context, until time.Time) { c.r.hear(ctx, until) }

func (c queueCrew) Reach(ctx context.Context, hosts []job.NodeDef) { c.r.reach(ctx, hosts) }

func (c queueCrew) Watch(ctx context.Context, now time.Time) {
	r := c.r
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

func (c queueCrew) Redials() (at []time.Time) {
	for _, rd := range c.r.retries {
		if !rd.busy {
			at = append(at, rd.at)
		}
	}
	return at
}

func (c queueCrew) Scatter(keeper queue.Host) {
	r := c.r
	if !r.connected {
		return
	}
	for _, n := range r.hosts {
		if queue.Host(n) != keeper {
			n.Send(&wire.Bye{})
			go n.Close()
		}
	}
	r.keep(func(n *host) bool { return queue.Host(n) == keeper })
	r.connected = false
	clear(r.errs)
}

func (c queueCrew) Others(ctx context.Context, uid int) ([]job.Node, error) {
	r := c.r
	ctx, done := r.within(ctx, lateError(r.req))
	defer done()
	if !r.connected {
		if err := r.connectCandidates(ctx); err != nil {
			return nil, err
		}
		r.connected = true
	}
	r.without = []int{uid}
	defer func() { r.without = nil }()
	silent, err := r.probe(ctx, r.candidates(), r.probeTime())
	r.takeSnapshot()
	unseen := make(map[string]bool, len(silent))
	for _, n := range silent {
		unseen[n.def.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(r.snap.Nodes), func(n job.Node) bool { return unseen[n.Name] }), err
}

// hear takes in what is said without having been asked for.
func (r *reservation) hear(ctx context.Context, until time.Time) {
	for _, event := range r.events(ctx, until) {
		r.handle(event)
	}
}

// Times of trying hosts again (placement.md 6.7).
const (
	redialFirst = 5 * time.Second // doubling
	redialMost  = time.Minute
)

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

// handle takes what nobody asked for.
func (r *reservation) handle(event any) {
	switch e := event.(type) {
	case disconnected:
		if e.from.lost == nil { // else we have given it up
			e.from.lost = e.err
		}
		delete(r.byNode, e.from.Node)
		go e.from.Close()
		r.queue.News()
	case reconnected:
		r.reconnected(e)
	case message:
		switch m := e.m.(type) {
		case *wire.Changed:
			r.queue.News()
		case *wire.Queued:
			r.queue.Queued(m)
		}
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
	r.queue.News()
}

// candidates are the nodes that may get ranks, as far as they are connected.
func (r *reservation) candidates() []*host {
	return slices.DeleteFunc(r.reached(), func(n *host) bool { return n.lost != nil })
}
