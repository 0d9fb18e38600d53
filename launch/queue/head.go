package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/wire"
)

/*
A headWatch is what we have seen of the head of the queue, while we wait behind it (TRUST-18). Nobody
passes a head that has no room: that is what a queue is for. But one that has had room for a
minute did not want it, since an honest one starts within 12 seconds; and whoever wants to
stay ahead for ever must want what he can never get, which is seen from his ticket.

	observed of the head's nodes           verdict
	  it could never have its room         pass that ticket
	  room for 60 s, in all of 5 looks     pass its user (of one that waits for a set
	                                       of nodes, when that is over, too)
	  too few of its nodes to judge, 600 s start on nodes that it does not name
	  else                                 wait

We judge by our own eyes alone, so that no user can have another passed.
*/
type headObserver struct {
	head      job.Ticket
	since     time.Time // it is the head since then, as far as we saw
	fitsSince time.Time // it has had room since then, in all our looks; zero: it had none in the last
	looks     int       // since then
	next      time.Time // when to look again
	pause     time.Duration

	patience time.Duration // with a head that waits for a set
}

// Times of passing. A head with room is looked at as often as it would try itself.
const (
	maxFitTime      = time.Minute
	minLooks        = 5
	maxUnseen       = 10 * time.Minute
	minLookInterval = 12 * time.Second
	maxLookInterval = 5 * time.Minute // doubling up to that, as long as it has no room
)

// A headDecision is what to do about the head.
type headDecision int

const (
	keepWaiting    headDecision = iota
	overtakeTicket              // that ticket alone
	overtakeUser                // all that its user has in the queue
	useOtherNodes               // start on nodes that it does not name
)

// An observation is what one look at the head's nodes has shown.
type observation struct {
	fits       bool // for it
	neverFits  bool // there can be none
	tooFewSeen bool // too few of its nodes were seen to know
}

// withHead takes note of who is the head.
func (w headObserver) withHead(head job.Ticket, now time.Time) headObserver {
	if w.head.Number == head.Number && w.head.UID == head.UID && w.head.Job == head.Job {
		return w
	}
	return headObserver{head: head, since: now, next: now, patience: w.patience}
}

// decide says what to do about the head after one more look.
func (w headObserver) decide(o observation, now time.Time) (headObserver, headDecision) {
	if !o.fits {
		w.fitsSince, w.looks = time.Time{}, 0
		w.pause = min(max(2*w.pause, minLookInterval), maxLookInterval)
		w.next = now.Add(w.pause)
		switch {
		case o.neverFits:
			return w, overtakeTicket
		case o.tooFewSeen && now.Sub(w.since) >= maxUnseen:
			return w, useOtherNodes
		}
		return w, keepWaiting
	}
	if w.fitsSince.IsZero() {
		w.fitsSince = now
	}
	w.looks++
	w.pause, w.next = 0, now.Add(minLookInterval)
	if w.looks >= minLooks && now.Sub(w.fitsSince) >= maxFitTime+w.setPatience() {
		return w, overtakeUser
	}
	return w, keepWaiting
}

// setPatience is how long the head may have room and not take it, since it wants to stay within one set of
// nodes: for as long as the site lets jobs of ours.
func (w headObserver) setPatience() time.Duration {
	return min(time.Duration(w.head.MaxSetDelay)*time.Second, w.patience)
}

// observeHead looks for room for a ticket on the nodes that it names, or on ours if it names
// none. What its own user holds must not be in nodes.
func observeHead(t job.Ticket, nodes []job.Node) observation {
	named := ticketNodes(t)
	room, most, seen := 0, 0, 0
	for i := range nodes {
		n := &nodes[i]
		if named != nil && !named[HostName(n.Hostname, n.NodeDef)] {
			continue
		}
		seen++
		free, all := capacityOn(t, n)
		room, most = room+free, most+all
	}
	want := max(1, t.Size)
	return observation{
		fits:       room >= want,
		neverFits:  most < want && seen > 0 && seen >= len(named),
		tooFewSeen: most < want && seen < len(named),
	}
}

// capacityOn is for how many ranks of a ticket there is room on a node: now, and when nobody
// else is there.
func capacityOn(t job.Ticket, n *job.Node) (free, all int) {
	each := max(1, t.CPUs)
	cores, idle := len(n.Topology.Cores), n.Ranks == 0 && !n.ExclusivelyHeld
	unused, shareable := cores, cores
	for _, core := range n.Topology.Cores {
		if slices.ContainsFunc(core.CPUs, func(cpu int) bool { return slices.Contains(n.BusyCPUs, cpu) }) {
			unused--
		}
		if slices.ContainsFunc(core.CPUs, func(cpu int) bool { return slices.Contains(n.BusyCPUs, cpu) && !slices.Contains(n.SharedCPUs, cpu) }) {
			shareable--
		}
	}
	free, all = unused/each, cores/each
	if t.Shares { // any number fits where one does
		if all = max(1, t.Size); shareable >= each || idle {
			free = all
		}
	}
	if t.PerNode > 0 {
		free, all = min(free, t.PerNode), min(all, t.PerNode)
	}
	if n.ExclusivelyHeld || t.Exclusive && !idle {
		free = 0
	}
	return free, all
}

// maxNamedNodes is how many nodes a ticket may name. One that names more names none.
const maxNamedNodes = 1 << 16

// ticketNodes are the host names of a ticket's nodes; nil: it says none, too many, or nonsense.
func ticketNodes(t job.Ticket) map[string]bool {
	names, err := hostlist.ExpandUpTo(maxNamedNodes, t.Nodes)
	if t.Nodes == "" || err != nil {
		return nil
	}
	named := make(map[string]bool, len(names))
	for _, name := range names {
		named[strings.ToLower(name)] = true
	}
	return named
}

// describeRequest says on the ticket what the request wants (TRUST-18).
func (q *Queue) describeRequest(t *job.Ticket) {
	perNode := 0
	for _, app := range q.req.Apps {
		t.Size += app.N
		t.CPUs = max(t.CPUs, app.CPUsPerRank)
		perNode += app.PerNode
		if app.PerNode == 0 {
			perNode = -1 << 20
		}
	}
	t.PerNode = max(0, perNode)
	if _, t.ExactPerNode = job.DepthAndShape(q.req.Apps); q.req.NodeSet.Policy != "" {
		t.NodeSet = q.req.NodeSet.Request.String()
	}
	t.MaxSetDelay = int(q.req.NodeSet.Delay / time.Second)
	t.Exclusive, t.Shares = q.req.Exclusive || q.req.Overbook, q.req.Overbook || q.req.Oversubscribe
	var names []string
	for _, def := range q.req.Nodes {
		names = append(names, HostName(q.helpers.Hostname(def.Name), def))
	}
	if text := hostlist.Fold(names); len(text) <= maxNodesText {
		t.Nodes = text
	}
}

// HostName is what tickets call a node: its own name (Probe.Hostname), or ours if it was not reached.
func HostName(hostname string, def job.NodeDef) string {
	return strings.ToLower(cmp.Or(hostname, def.Name))
}

// maxNodesText is how many bytes of names a ticket may have.
const maxNodesText = 3 << 10

// hasForeignHead reports whether the head of the queue is known, and is somebody else's.
func (q *Queue) hasForeignHead() bool {
	head := q.position.head
	return head.Job != "" && (head.UID != q.req.User.UID || head.User != q.req.User.Name)
}

// observeHeadIfDue looks at the head of the queue when that is due, and passes it if it may be.
func (q *Queue) observeHeadIfDue(ctx context.Context, now time.Time) {
	at := &q.position
	at.headObserver.patience = q.req.MaxDelay
	at.headObserver = at.headObserver.withHead(at.head, now)
	if !q.hasForeignHead() || now.Before(at.headObserver.next) {
		return
	}
	nodes, err := q.helpers.OthersOccupancy(ctx, at.head.UID)
	if err != nil {
		q.env.Log.Info().Err(err).Msg("the head of the queue could not be judged")
		nodes = nil
	}
	seen := observeHead(at.head, nodes)
	if len(nodes) == 0 {
		seen = observation{tooFewSeen: true}
	}
	var v headDecision
	at.headObserver, v = at.headObserver.decide(seen, time.Now())
	q.carryOut(ctx, v)
}

// carryOut carries a verdict out.
func (q *Queue) carryOut(ctx context.Context, v headDecision) {
	at := &q.position
	switch {
	case v == keepWaiting:
	case v == useOtherNodes && at.ahead == 1:
		q.avoidedNodes = at.head.Nodes
	case v == useOtherNodes: // honest ones may be between
	default:
		m := &wire.Overtake{UID: at.head.UID}
		if v == overtakeTicket {
			m.Number = at.head.Number
		} else {
			q.env.Say(fmt.Sprintf("%s's request (job %s, pid %d on %s) has had room for 1 minute and did not start; going ahead of it",
				ticketOwner(at.head), at.head.Job, at.head.PID, q.host.Name()))
		}
		q.helpers.Request(ctx, q.env.ReplyTime, q.host, m, q.isReply)
	}
}

// ticketOwner is the user of a ticket: what he says, and what the ledger vouches for.
func ticketOwner(t job.Ticket) string {
	if t.User == "" {
		return fmt.Sprintf("uid %d", t.UID)
	}
	return t.User
}
