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

// A queueHelpers is the helpers of a reservation, as its queue sees them. A host of the queue's is a host of ours.
type queueHelpers struct{ r *reservation }

// newQueue is the queue of a reservation.
func (r *reservation) newQueue() *queue.Queue {
	return queue.New(&r.req, queueHelpers{r}, queue.Env{StopTimes: r.env.StopTimes, Log: r.env.Log, Say: r.env.Report, SayOnce: r.reportOnce, ReplyTime: r.replyTimeout()})
}

func (n *host) Lost() error             { return n.lost }
func (n *host) Definition() job.NodeDef { return n.def }

func (c queueHelpers) FindHost(name string) queue.Host {
	if n := c.r.findHost(job.NodeDef{Name: name}); n != nil {
		return n
	}
	return nil
}

func (c queueHelpers) FirstReached() queue.Host {
	reached := c.r.reachedHosts()
	if len(reached) == 0 {
		return nil
	}
	return slices.MinFunc(reached, func(x, y *host) int { return x.def.ID - y.def.ID })
}

func (c queueHelpers) OnlyThisMachine() bool { return len(c.r.hosts) == 1 && c.r.hosts[0].def.Local }

func (c queueHelpers) WhyUnreached(name string) error {
	if err := c.r.errs[name]; err != nil {
		return err
	}
	if n := c.r.byName[name]; n != nil {
		return n.lost
	}
	return nil
}

func (c queueHelpers) Hostname(name string) string {
	if n := c.r.byName[name]; n != nil {
		return n.probe.Hostname
	}
	return ""
}

func (c queueHelpers) Request(ctx context.Context, limit time.Duration, n queue.Host, question wire.Message, heard func(wire.Message) bool) error {
	return c.r.requestEach(ctx, limit, []*host{n.(*host)}, func(*host) wire.Message { return question },
		func(_ *host, m wire.Message) bool { return heard(m) })
}

func (c queueHelpers) ReceiveEvents(ctx context.Context, until time.Time) {
	c.r.receiveEvents(ctx, until)
}

func (c queueHelpers) ConnectTo(ctx context.Context, hosts []job.NodeDef) { c.r.connectTo(ctx, hosts) }

func (c queueHelpers) WatchClaims(ctx context.Context, now time.Time) {
	r := c.r
	r.watchClaims()
	if due := r.dueRetries(now); len(due) > 0 {
		env := &r.env
		go func() {
			for c := range env.Connect(ctx, due) {
				env.Inbox.Put(reconnected{due[c.Index], c.Node, c.Err})
			}
		}()
	}
}

func (c queueHelpers) RetryTimes() (at []time.Time) {
	for _, rd := range c.r.retries {
		if !rd.busy {
			at = append(at, rd.at)
		}
	}
	return at
}

func (c queueHelpers) DisconnectAllBut(keeper queue.Host) {
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
	r.keepHosts(func(n *host) bool { return queue.Host(n) == keeper })
	r.connected = false
	clear(r.errs)
}

func (c queueHelpers) OthersOccupancy(ctx context.Context, uid int) ([]job.Node, error) {
	r := c.r
	ctx, done := r.withinLimit(ctx, startTimeoutError(r.req))
	defer done()
	if !r.connected {
		if err := r.connectCandidates(ctx); err != nil {
			return nil, err
		}
		r.connected = true
	}
	r.ignoredUsers = []int{uid}
	defer func() { r.ignoredUsers = nil }()
	silent, err := r.surveyWithin(ctx, r.connectedCandidates(), r.surveyTimeout())
	r.takeSnapshot()
	unseen := make(map[string]bool, len(silent))
	for _, n := range silent {
		unseen[n.def.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(r.snap.Nodes), func(n job.Node) bool { return unseen[n.Name] }), err
}

// receiveEvents takes in what is said without having been asked for.
func (r *reservation) receiveEvents(ctx context.Context, until time.Time) {
	for _, event := range r.takeEvents(ctx, until) {
		r.handleEvent(event)
	}
}

// Times of trying hosts again (placement.md 6.7).
const (
	minRetry = 5 * time.Second // doubling
	maxRetry = time.Minute
)

// A retry is a candidate that is down, while the request waits.
type retry struct {
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

// A LateEvent is an event of a reservation that comes when it is over. Who takes events out of the
// inbox then has to drop it.
type LateEvent interface{ Discard() }

// Discard lets a node go that was reached too late.
func (e reconnected) Discard() {
	if e.node != nil {
		go e.node.Close()
	}
}

// handleEvent takes what nobody asked for.
func (r *reservation) handleEvent(event any) {
	switch e := event.(type) {
	case disconnected:
		if e.from.lost == nil { // else we have given it up
			e.from.lost = e.err
		}
		delete(r.byNode, e.from.Node)
		go e.from.Close()
		r.queue.ClaimsChanged()
	case reconnected:
		r.handleReconnected(e)
	case message:
		switch m := e.m.(type) {
		case *wire.ClaimsChanged:
			r.queue.ClaimsChanged()
		case *wire.QueuePosition:
			r.queue.PositionReceived(m)
		}
	}
}

// watchClaims has those nodes tell of changes that do not yet.
func (r *reservation) watchClaims() {
	for _, n := range r.hosts {
		if !n.watched && n.lost == nil {
			n.watched = true
			n.Send(&wire.WatchClaims{Ledger: r.req.Queue.LedgerDir})
		}
	}
}

// dueRetries are the candidates that are down and whose next attempt is now.
func (r *reservation) dueRetries(now time.Time) (defs []job.NodeDef) {
	for _, def := range r.req.Nodes {
		if r.errs[def.Name] == nil {
			continue
		}
		rd := r.retries[def.Name]
		if rd == nil {
			rd = &retry{at: now.Add(minRetry), delay: minRetry}
			r.retries[def.Name] = rd
		}
		if !rd.busy && !now.Before(rd.at) {
			rd.busy = true
			defs = append(defs, def)
		}
	}
	return defs
}

// handleReconnected takes a node in that is back, or lets it rest a while longer.
func (r *reservation) handleReconnected(e reconnected) {
	rd := r.retries[e.def.Name]
	if e.err != nil {
		r.errs[e.def.Name] = e.err
		rd.busy, rd.delay = false, min(2*rd.delay, maxRetry)
		rd.at = time.Now().Add(rd.delay)
		return
	}
	delete(r.retries, e.def.Name)
	delete(r.errs, e.def.Name)
	r.addConnected(e.def, e.node)
	r.queue.ClaimsChanged()
}

// connectedCandidates are the nodes that may get ranks, as far as they are connected.
func (r *reservation) connectedCandidates() []*host {
	return slices.DeleteFunc(r.reachedHosts(), func(n *host) bool { return n.lost != nil })
}
