package pmix

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// get answers a Get, in the order of the table of pmix-wire.md 6.4.
func (c *client) get(q envelope, r *message.Get) {
	g := c.server.locate(r.Namespace)
	switch {
	case g != nil && g != c.group && r.Rank == bfrops.Wildcard:
		c.getJob(q, g, r.Key)
	case g == nil, r.Rank >= bfrops.LocalPeers: // what is of all was in the job info
		c.status(q, message.NotFound)
	case int64(r.Rank) >= int64(g.Size):
		c.status(q, message.NotFound)
	case strings.HasPrefix(r.Key, "pmix"):
		c.getKnown(q, g, r)
	case g.rank(int64(r.Rank)) != nil:
		if w := c.pending(q, g, r); w != nil {
			g.await(g.rank(int64(r.Rank)), w, patienceOf(r.Options))
		}
	default:
		c.getRemote(q, g, r)
	}
}

// getJob answers with what another group is told of itself, if that has a key.
func (c *client) getJob(q envelope, g *group, key string) {
	if _, info, err := g.know(c.server.ctx); err == nil && hasKey(info, key) {
		reply := message.AppendStatus(message.NewReply(q.tag), message.Success)
		reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Wildcard}, info)
		c.reply(q, "job info", reply)
		return
	}
	c.status(q, message.NotFound)
}

// getKnown answers what is not committed but known, and never waits.
func (c *client) getKnown(q envelope, g *group, r *message.Get) {
	view, _, err := g.know(c.server.ctx)
	if err != nil {
		c.status(q, message.NotFound)
		return
	}
	if pairs := view.Rank(int(r.Rank)); hasKey(pairs, r.Key) {
		c.found(q, g, int(r.Rank), pairs, readAhead{})
		return
	}
	c.status(q, message.NotFound)
}

// A pendingGet is a Get that is answered when a rank commits a key.
type pendingGet struct {
	asker  *group // of the client; nil: another node asks
	by     int    // the client's rank
	key    string
	answer func(data []byte, s message.Status) // is called once, with all that the rank has committed or why not
	timer  *time.Timer                         // nil: there is no limit
	number int                                 // in the order in which they came
}

// pending is a Get of a client's; nil: its rank has too many.
func (c *client) pending(q envelope, g *group, r *message.Get) *pendingGet {
	if c.rank.gets.Add(1) > maxWaiting {
		c.rank.gets.Add(-1)
		c.status(q, message.TooMuch)
		return nil
	}
	rank, ahead := int(r.Rank), c.ahead(g, int(r.Rank), r.Key)
	return &pendingGet{asker: c.group, by: c.rank.number, key: r.Key, answer: func(data []byte, s message.Status) {
		c.rank.gets.Add(-1)
		if s != message.Success {
			c.status(q, s)
			return
		}
		c.found(q, g, rank, data, ahead)
	}}
}

// found answers a Get with pairs of a rank, and of some behind it. One of another namespace is told of
// that first.
func (c *client) found(q envelope, g *group, rank int, pairs []byte, ahead readAhead) {
	reply := message.AppendStatus(message.NewReply(q.tag), message.Success)
	if g != c.group {
		if _, info, err := g.know(c.server.ctx); err == nil {
			reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Wildcard}, info)
		}
	}
	reply = slices.Grow(reply, min((1+ahead.reach)*(len(pairs)+procRoom), maxAheadBytes))
	reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Rank(rank)}, pairs)
	reply = c.appendAhead(reply, g, rank, ahead)
	c.reply(q, fmt.Sprintf("%d bytes", len(pairs)), reply)
}

// patience is how long a Get waits for a key when its rank has committed without it, and the
// client says nothing else (PMIX-33).
const patience = 2 * time.Second

// A gettingLimit is how long a Get waits at most; 0: as long as patience is from the first commit of its
// rank on. A negative one does not wait.
type gettingLimit time.Duration

func patienceOf(o message.Options) gettingLimit {
	if o.Immediate() {
		return -1
	}
	return gettingLimit(o.Timeout())
}

// await answers a Get with what a rank of this node has committed, or lets it wait for that (PMIX-33).
func (g *group) await(of *localRank, w *pendingGet, most gettingLimit) {
	g.mu.Lock()
	shown, status := of.shownTo(w), message.Success
	switch {
	case shown.has(w.key):
	case most < 0, of.gone, of.state == Finalized:
		status = message.NotFound
	case g.isEnding():
		status = message.Failed
	case w.asker == nil && of.waiting.many >= maxFromElsewhere:
		status = message.TooMuch
	default:
		of.waiting.add(w)
		if most > 0 {
			g.limit(&of.waiting, w, time.Duration(most))
		} else if of.committed {
			g.limit(&of.waiting, w, patience)
		}
		g.mu.Unlock()
		return
	}
	data := shown.pairs
	g.mu.Unlock()
	w.answer(data, status)
}

// shownTo returns what a rank has committed for ranks of its node, or for those elsewhere.
func (r *localRank) shownTo(w *pendingGet) *showing {
	if w.asker == nil {
		return &r.forOthers
	}
	return &r.forNode
}

// settle notes that a rank has committed: those who wait for it still do so no longer than patience from the
// first time on, unless they have said how long. It needs g.mu.
func (g *group) settle(r *localRank) {
	if r.committed {
		return
	}
	r.committed = true
	r.waiting.each(func(w *pendingGet) {
		if w.timer == nil {
			g.limit(&r.waiting, w, patience)
		}
	})
}

// limit lets a Get that waits in a list do so no longer than a while. It needs g.mu.
func (g *group) limit(list *waiters, w *pendingGet, after time.Duration) {
	w.timer = time.AfterFunc(after, func() {
		g.server.task(func() {
			if g.giveUp(list, w) {
				w.answer(nil, message.NotFound)
			}
		})
	})
}

// giveUp takes a Get from those who wait; false: it was answered.
func (g *group) giveUp(list *waiters, w *pendingGet) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return list.drop(w)
}

// end ends a wait with all that the rank has committed (PMIX-35), or without.
func (w *pendingGet) end(data []byte, s message.Status) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.answer(data, s)
}

func endAll(waiting []*pendingGet, s message.Status) {
	for _, w := range waiting {
		w.end(nil, s)
	}
}

// takeWaiting takes those out who wait for a rank of the group, wherever that is. All of them, or
// those that a group asks for.
func (g *group) takeWaiting(all bool, asker *group) (taken []*pendingGet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := func(list *waiters) {
		taken = append(taken, list.takeAll(func(w *pendingGet) bool { return all || w.asker == asker })...)
	}
	for _, r := range g.byRank {
		from(&r.waiting)
	}
	for _, some := range g.far.open {
		for _, f := range some {
			from(&f.waiting)
		}
	}
	return taken
}
