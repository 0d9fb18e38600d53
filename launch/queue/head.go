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
A headObserver watches the head of the queue while its own request waits behind it (rule TRUST-18). A head
whose ranks do not fit now is not overtaken, unless they can never fit: such a request would block the queue
forever. If its ranks have fitted for a minute and it has not started, it does not mean to start: an honest
request starts within 12 seconds.

	observed on the head's nodes           decision
	  its ranks can never fit              overtake that ticket
	  they fit in 5 observations or more,  overtake all tickets of its user
	  for 60 s + nodeSetPatience
	  too few nodes observed, for 600 s    start on nodes that it does not name
	  else                                 wait

Each request decides only by its own observations, so that no user can have another user overtaken.
*/
type headObserver struct {
	head      job.Ticket
	since     time.Time // when it was first seen as the head
	fitsSince time.Time // since when its ranks have fitted each time; zero if they did not the last time
	looks     int       // number of observations since fitsSince
	next      time.Time // when to observe again
	pause     time.Duration

	patience time.Duration // longest extra time for a head that waits for a node set
}

// These constants decide when a request overtakes the head of the queue (see headObserver). While the ranks of the head
// fit, other requests observe it every minLookInterval. An honest head tries to start at least as often.
const (
	maxFitTime      = time.Minute
	minLooks        = 5
	maxUnseen       = 10 * time.Minute
	minLookInterval = 12 * time.Second
	maxLookInterval = 5 * time.Minute // the interval doubles up to this, as long as the ranks do not fit
)

// A headDecision says whether this request overtakes the head, which is the first request of the queue.
type headDecision int

const (
	keepWaiting    headDecision = iota
	overtakeTicket              // overtake that ticket alone
	overtakeUser                // overtake all tickets of its user
	useOtherNodes               // start on nodes that it does not name
)

// An observation says whether the ranks of the queue's first request fit on its nodes at one moment.
type observation struct {
	fits       bool // the head's ranks fit now
	neverFits  bool // they can never fit
	tooFewSeen bool // too few of its nodes were observed to decide
}

// withHead returns an observer for the first request of the queue (head). If that request is the same as
// before, it returns w itself.
func (w headObserver) withHead(head job.Ticket, now time.Time) headObserver {
	if w.head.Number == head.Number && w.head.UID == head.UID && w.head.Job == head.Job {
		return w
	}
	return headObserver{head: head, since: now, next: now, patience: w.patience}
}

// decide adds an observation. It returns the observer that includes it, and whether to overtake the first
// request of the queue.
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
	if w.looks >= minLooks && now.Sub(w.fitsSince) >= maxFitTime+w.nodeSetPatience() {
		return w, overtakeUser
	}
	return w, keepWaiting
}

// nodeSetPatience returns how long the first request of the queue may wait for a better node set although its
// ranks fit. The cluster file limits this time.
func (w headObserver) nodeSetPatience() time.Duration {
	return min(time.Duration(w.head.MaxSetDelay)*time.Second, w.patience)
}

// observeHead checks whether the ranks of a ticket fit on the nodes that the ticket names. If it names none, it uses
// all given nodes. In nodes, CPUs that the ticket's own user occupies must count as free, so that the user cannot keep
// the head from fitting.
func observeHead(t job.Ticket, nodes []job.Node) observation {
	named := ticketNodes(t)
	freeRanks, maxRanks, seen := 0, 0, 0
	for i := range nodes {
		n := &nodes[i]
		if named != nil && !named[HostName(n.Hostname, n.NodeDef)] {
			continue
		}
		seen++
		free, all := capacityOn(t, n)
		freeRanks, maxRanks = freeRanks+free, maxRanks+all
	}
	want := max(1, t.Size)
	return observation{
		fits:       freeRanks >= want,
		neverFits:  maxRanks < want && seen > 0 && seen >= len(named),
		tooFewSeen: maxRanks < want && seen < len(named),
	}
}

// capacityOn returns how many ranks of a ticket fit on a node. free is the number of ranks that fit now. all
// is the number that would fit if no other job used the node.
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
	if t.Shares { // ranks share CPUs: if one fits, all do
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

// maxNamedNodes is the largest number of nodes that a ticket may name. A ticket that names more is treated as
// if it named none.
const maxNamedNodes = 1 << 16

// ticketNodes returns the host names of the nodes that a ticket names. It returns nil if the ticket names
// none or too many, or its list is invalid.
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

// describeRequest writes into a ticket what the request needs, for other requests to read (rule TRUST-18).
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

// HostName returns the name that tickets use for a node. This is the host name that the machine reports. If that
// is unknown, it is the name in the node's definition.
func HostName(hostname string, def job.NodeDef) string {
	return strings.ToLower(cmp.Or(hostname, def.Name))
}

// maxNodesText is the largest size in bytes of the list of nodes in a ticket.
const maxNodesText = 3 << 10

// hasForeignHead reports whether the first request of the queue is known and belongs to another user.
func (q *Queue) hasForeignHead() bool {
	head := q.position.head
	return head.Job != "" && (head.UID != q.req.User.UID || head.User != q.req.User.Name)
}

// observeHeadIfDue checks the first request of the queue if it is time to do so, and overtakes that request
// if this is allowed.
func (q *Queue) observeHeadIfDue(ctx context.Context, now time.Time) {
	p := &q.position
	p.headObserver.patience = q.req.MaxDelay
	p.headObserver = p.headObserver.withHead(p.head, now)
	if !q.hasForeignHead() || now.Before(p.headObserver.next) {
		return
	}
	nodes, err := q.helpers.OthersOccupancy(ctx, p.head.UID)
	if err != nil {
		q.env.Log.Info().Err(err).Msg("cannot find out whether the first request of the queue could start")
		nodes = nil
	}
	seen := observeHead(p.head, nodes)
	if len(nodes) == 0 {
		seen = observation{tooFewSeen: true}
	}
	var decision headDecision
	p.headObserver, decision = p.headObserver.decide(seen, time.Now())
	q.carryOut(ctx, decision)
}

// carryOut carries out the decision whether to overtake the first request of the queue.
func (q *Queue) carryOut(ctx context.Context, decision headDecision) {
	p := &q.position
	switch {
	case decision == keepWaiting:
	case decision == useOtherNodes && p.ahead == 1:
		q.avoidedNodes = p.head.Nodes
	case decision == useOtherNodes: // other requests are between the head and this one
	default:
		m := &wire.Overtake{UID: p.head.UID}
		if decision == overtakeTicket {
			m.Number = p.head.Number
		} else {
			q.env.Say(fmt.Sprintf("the request of %s (job %s, pid %d on %s) could have started a minute ago, but has not started; this job starts before it",
				ticketOwner(p.head), p.head.Job, p.head.PID, q.host.Name()))
		}
		call(ctx, q, q.env.ReplyTime, q.host, m, q.PositionReceived)
	}
}

// ticketOwner returns the user to whom a ticket belongs: the user name in the ticket or, if there is none,
// the uid that owns the ticket's file.
func ticketOwner(t job.Ticket) string {
	if t.User == "" {
		return fmt.Sprintf("uid %d", t.UID)
	}
	return t.User
}
