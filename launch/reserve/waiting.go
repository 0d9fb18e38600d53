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

// This file connects a reservation with its queue (package queue): it gives the queue access to hosts, and
// tries unreachable hosts again while the request waits.

// A queueHelpers implements queue.Helpers for a reservation. Each of its queue.Host values is a *host.
type queueHelpers struct{ r *reservation }

// newQueue returns the Queue with which the reservation waits until nodes are free.
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

func (c queueHelpers) Call(ctx context.Context, limit time.Duration, n queue.Host, request wire.Message, handle func(wire.Message)) error {
	silent, err := c.r.awaitReplies(ctx, limit, []*host{n.(*host)}, func(*host) wire.Message { return request },
		func(_ *host, reply wire.Message) { handle(reply) })
	if err != nil {
		return err
	}
	return giveUp(silent, limit)
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
				env.Inbox.Put(reconnection{due[c.Index], c.Node, c.Err})
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

func (c queueHelpers) DisconnectAllBut(keep queue.Host) {
	r := c.r
	if !r.connected {
		return
	}
	for _, n := range r.hosts {
		if queue.Host(n) != keep {
			n.Send(&wire.Bye{})
			go n.Close()
		}
	}
	r.keepHosts(func(n *host) bool { return queue.Host(n) == keep })
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
	notSurveyed := make(map[string]bool, len(silent))
	for _, n := range silent {
		notSurveyed[n.def.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(r.snap.Nodes), func(n job.Node) bool { return notSurveyed[n.Name] }), err
}

// receiveEvents waits for events until the given time and handles them.
func (r *reservation) receiveEvents(ctx context.Context, until time.Time) {
	for _, event := range r.takeEvents(ctx, until) {
		r.handleEvent(event)
	}
}

// These are delays between attempts to connect to an unreachable host (placement.md 6.7).
const (
	minRetry = 5 * time.Second // the first delay; it doubles
	maxRetry = time.Minute
)

// A retry records when to connect again to an unreachable candidate host while the request waits.
type retry struct {
	at    time.Time // of the next attempt
	delay time.Duration
	busy  bool // an attempt is under way
}

// A reconnection is an event with the result of a further attempt to connect to a candidate host.
type reconnection struct {
	def  job.NodeDef
	node *node.Node
	err  error
}

// A LateEvent is an event that may arrive after its reservation has ended. In that case, the code that takes
// it out of the inbox must call Discard.
type LateEvent interface{ Discard() }

// Discard closes the connection, which was established after the reservation had ended.
func (e reconnection) Discard() {
	if e.node != nil {
		go e.node.Close()
	}
}

// handleEvent handles an event that is not a reply to a request.
func (r *reservation) handleEvent(event any) {
	switch e := event.(type) {
	case disconnection:
		if e.from.lost == nil { // else the reservation gave it up itself
			e.from.lost = e.err
		}
		delete(r.byNode, e.from.Node)
		go e.from.Close()
		r.queue.ClaimsChanged()
	case reconnection:
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

// watchClaims asks each node to report when its claims change. It asks each node only once.
func (r *reservation) watchClaims() {
	for _, n := range r.hosts {
		if !n.watched && n.lost == nil {
			n.watched = true
			n.Send(&wire.WatchClaims{Ledger: r.req.Queue.LedgerDir})
		}
	}
}

// dueRetries returns the unreachable candidate hosts to which it is time to connect again, and marks them as being
// tried.
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

// handleReconnected handles the result of a retry: it adds the node to the reservation, or schedules the next retry.
func (r *reservation) handleReconnected(e reconnection) {
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

// connectedCandidates returns the candidate hosts whose connections are open.
func (r *reservation) connectedCandidates() []*host {
	return slices.DeleteFunc(r.reachedHosts(), func(n *host) bool { return n.lost != nil })
}
