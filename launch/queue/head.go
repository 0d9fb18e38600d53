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
type headWatch struct {
	head  job.Ticket
	since time.Time // it is the head since then, as far as we saw
	roomy time.Time // it has had room since then, in all our looks; zero: it had none in the last
	looks int       // since then
	next  time.Time // when to look again
	pause time.Duration

	patience time.Duration // with a head that waits for a set
}

// Times of passing. A head with room is looked at as often as it would try itself.
const (
	roomMost   = time.Minute
	looksLeast = 5
	unseenMost = 10 * time.Minute
	lookOften  = 12 * time.Second
	lookSeldom = 5 * time.Minute // doubling up to that, as long as it has no room
)

// A verdict is what to do about the head.
type verdict int

const (
	bide      verdict = iota
	passIt            // that ticket alone
	passUser          // all that its user has in the queue
	elsewhere         // start on nodes that it does not name
)

// An observation is what one look at the head's nodes has shown.
type observation struct {
	room  bool // for it
	never bool // there can be none
	blind bool // too few of its nodes were seen to know
}

// follow takes note of who is the head.
func (w headWatch) follow(head job.Ticket, now time.Time) headWatch {
	if w.head.Number == head.Number && w.head.UID == head.UID && w.head.Job == head.Job {
		return w
	}
	return headWatch{head: head, since: now, next: now, patience: w.patience}
}

// judge says what to do about the head after one more look.
func (w headWatch) judge(o observation, now time.Time) (headWatch, verdict) {
	if !o.room {
		w.roomy, w.looks = time.Time{}, 0
		w.pause = min(max(2*w.pause, lookOften), lookSeldom)
		w.next = now.Add(w.pause)
		switch {
		case o.never:
			return w, passIt
		case o.blind && now.Sub(w.since) >= unseenMost:
			return w, elsewhere
		}
		return w, bide
	}
	if w.roomy.IsZero() {
		w.roomy = now
	}
	w.looks++
	w.pause, w.next = 0, now.Add(lookOften)
	if w.looks >= looksLeast && now.Sub(w.roomy) >= roomMost+w.insists() {
		return w, passUser
	}
	return w, bide
}

// insists is how long the head may have room and not take it, since it wants to stay within one set of
// nodes: for as long as the site lets jobs of ours.
func (w headWatch) insists() time.Duration {
	return min(time.Duration(w.head.Delay)*time.Second, w.patience)
}

// observe looks for room for a ticket on the nodes that it names, or on ours if it names
// none. What its own user holds must not be in nodes.
func observe(t job.Ticket, nodes []job.Node) observation {
	named := namesOf(t)
	room, most, seen := 0, 0, 0
	for i := range nodes {
		n := &nodes[i]
		if named != nil && !named[HostName(n.Hostname, n.NodeDef)] {
			continue
		}
		seen++
		free, all := roomOn(t, n)
		room, most = room+free, most+all
	}
	want := max(1, t.Size)
	return observation{
		room:  room >= want,
		never: most < want && seen > 0 && seen >= len(named),
		blind: most < want && seen < len(named),
	}
}

// roomOn is for how many ranks of a ticket there is room on a node: now, and when nobody
// else is there.
func roomOn(t job.Ticket, n *job.Node) (free, all int) {
	each := max(1, t.CPUs)
	cores, idle := len(n.Topology.Cores), n.Procs == 0 && !n.Taken
	unused, shareable := cores, cores
	for _, core := range n.Topology.Cores {
		if slices.ContainsFunc(core.CPUs, func(cpu int) bool { return slices.Contains(n.Busy, cpu) }) {
			unused--
		}
		if slices.ContainsFunc(core.CPUs, func(cpu int) bool { return slices.Contains(n.Busy, cpu) && !slices.Contains(n.Shared, cpu) }) {
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
	if n.Taken || t.Exclusive && !idle {
		free = 0
	}
	return free, all
}

// mostNamed is how many nodes a ticket may name. One that names more names none.
const mostNamed = 1 << 16

// namesOf are the host names of a ticket's nodes; nil: it says none, too many, or nonsense.
func namesOf(t job.Ticket) map[string]bool {
	names, err := hostlist.ExpandUpTo(mostNamed, t.Nodes)
	if t.Nodes == "" || err != nil {
		return nil
	}
	named := make(map[string]bool, len(names))
	for _, name := range names {
		named[strings.ToLower(name)] = true
	}
	return named
}

// wants says on the ticket what the request wants (TRUST-18).
func (q *Queue) wants(t *job.Ticket) {
	perNode := 0
	for _, app := range q.req.Apps {
		t.Size += app.N
		t.CPUs = max(t.CPUs, app.Threads)
		perNode += app.PerNode
		if app.PerNode == 0 {
			perNode = -1 << 20
		}
	}
	t.PerNode = max(0, perNode)
	if _, t.Shape = job.Extent(q.req.Apps); q.req.Set.Policy != "" {
		t.NodeSet = q.req.Set.Request.String()
	}
	t.Delay = int(q.req.Set.Delay / time.Second)
	t.Exclusive, t.Shares = q.req.Exclusive || q.req.Overbook, q.req.Overbook || q.req.Oversubscribe
	var names []string
	for _, def := range q.req.Nodes {
		names = append(names, HostName(q.crew.Hostname(def.Name), def))
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

// judgesHead reports whether the head of the queue is known, and is somebody else's.
func (q *Queue) judgesHead() bool {
	head := q.position.head
	return head.Job != "" && (head.UID != q.req.User.UID || head.User != q.req.User.Name)
}

// watchHead looks at the head of the queue when that is due, and passes it if it may be.
func (q *Queue) watchHead(ctx context.Context, now time.Time) {
	at := &q.position
	at.watch.patience = q.req.MaxDelay
	at.watch = at.watch.follow(at.head, now)
	if !q.judgesHead() || now.Before(at.watch.next) {
		return
	}
	nodes, err := q.crew.Others(ctx, at.head.UID)
	if err != nil {
		q.env.Log.Info().Err(err).Msg("the head of the queue could not be judged")
		nodes = nil
	}
	seen := observe(at.head, nodes)
	if len(nodes) == 0 {
		seen = observation{blind: true}
	}
	var v verdict
	at.watch, v = at.watch.judge(seen, time.Now())
	q.actOn(ctx, v)
}

// actOn carries a verdict out.
func (q *Queue) actOn(ctx context.Context, v verdict) {
	at := &q.position
	switch {
	case v == bide:
	case v == elsewhere && at.ahead == 1:
		q.aside = at.head.Nodes
	case v == elsewhere: // honest ones may be between
	default:
		m := &wire.Pass{UID: at.head.UID}
		if v == passIt {
			m.Number = at.head.Number
		} else {
			q.env.Say(fmt.Sprintf("%s's request (job %s, pid %d on %s) has had room for 1 minute and did not start; going ahead of it",
				who(at.head), at.head.Job, at.head.PID, q.keeper.Name()))
		}
		q.crew.Ask(ctx, q.env.Answer, q.keeper, m, q.answered)
	}
}

// who is the user of a ticket: what he says, and what the ledger vouches for.
func who(t job.Ticket) string {
	if t.User == "" {
		return fmt.Sprintf("uid %d", t.UID)
	}
	return t.User
}
