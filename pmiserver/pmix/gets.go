package pmix

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// handleGet answers a Get, in the order of the table of pmix-wire.md 6.4.
func (c *client) handleGet(q requestInfo, r *message.Get) {
	g := c.server.findGroup(r.Namespace)
	switch {
	case g != nil && g != c.group && r.Rank == bfrops.Wildcard:
		c.replyGroupInfo(q, g, r.Key)
	case g == nil, r.Rank >= bfrops.LocalPeers: // what is of all was in the job info
		c.replyStatus(q, message.NotFound)
	case int64(r.Rank) >= int64(g.Size):
		c.replyStatus(q, message.NotFound)
	case strings.HasPrefix(r.Key, "pmix"):
		c.getJobInfo(q, g, r)
	case g.findRank(int64(r.Rank)) != nil:
		if w := c.newPendingGet(q, g, r); w != nil {
			g.awaitCommit(g.findRank(int64(r.Rank)), w, getTimeoutOf(r.Options))
		}
	default:
		c.getFromNode(q, g, r)
	}
}

// replyGroupInfo answers with what another group is told of itself, if that has a key.
func (c *client) replyGroupInfo(q requestInfo, g *group, key string) {
	if _, info, err := g.loadJobInfo(c.server.ctx); err == nil && hasKey(info, key) {
		reply := message.AppendStatus(message.NewReply(q.tag), message.Success)
		reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Wildcard}, info)
		c.reply(q, "job info", reply)
		return
	}
	c.replyStatus(q, message.NotFound)
}

// getJobInfo answers what is not committed but known, and never waits.
func (c *client) getJobInfo(q requestInfo, g *group, r *message.Get) {
	view, _, err := g.loadJobInfo(c.server.ctx)
	if err != nil {
		c.replyStatus(q, message.NotFound)
		return
	}
	if pairs := view.Rank(int(r.Rank)); hasKey(pairs, r.Key) {
		c.replyFound(q, g, int(r.Rank), pairs, readAhead{})
		return
	}
	c.replyStatus(q, message.NotFound)
}

// A pendingGet is a Get that is answered when a rank commits a key.
type pendingGet struct {
	asker     *group // of the client; nil: another node asks
	askerRank int    // the client's rank
	key       string
	answer    func(data []byte, s message.Status) // is called once, with all that the rank has committed or why not
	timer     *time.Timer                         // nil: there is no limit
	order     int                                 // in the order in which they came
}

// newPendingGet is a Get of a client's; nil: its rank has too many.
func (c *client) newPendingGet(q requestInfo, g *group, r *message.Get) *pendingGet {
	if c.rank.gets.Add(1) > maxWaitingGets {
		c.rank.gets.Add(-1)
		c.replyStatus(q, message.NoMemory)
		return nil
	}
	rank, ahead := int(r.Rank), c.readAheadFor(g, int(r.Rank), r.Key)
	return &pendingGet{asker: c.group, askerRank: c.rank.number, key: r.Key, answer: func(data []byte, s message.Status) {
		c.rank.gets.Add(-1)
		if s != message.Success {
			c.replyStatus(q, s)
			return
		}
		c.replyFound(q, g, rank, data, ahead)
	}}
}

// replyFound answers a Get with pairs of a rank, and of some behind it. One of another namespace is told of
// that first.
func (c *client) replyFound(q requestInfo, g *group, rank int, pairs []byte, ahead readAhead) {
	reply := message.AppendStatus(message.NewReply(q.tag), message.Success)
	if g != c.group {
		if _, info, err := g.loadJobInfo(c.server.ctx); err == nil {
			reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Wildcard}, info)
		}
	}
	reply = slices.Grow(reply, min((1+ahead.count)*(len(pairs)+procOverhead), maxReadAheadBytes))
	reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Rank(rank)}, pairs)
	reply = c.appendReadAhead(reply, g, rank, ahead)
	c.reply(q, fmt.Sprintf("%d bytes", len(pairs)), reply)
}

// defaultGetTimeout is how long a Get waits for a key when its rank has committed without it, and the
// client says nothing else (PMIX-33).
const defaultGetTimeout = 2 * time.Second

// A getTimeout is how long a Get waits at most; 0: as long as patience is from the first commit of its
// rank on. A negative one does not wait.
type getTimeout time.Duration

func getTimeoutOf(o message.Options) getTimeout {
	if o.Immediate() {
		return -1
	}
	return getTimeout(o.Timeout())
}

// awaitCommit answers a Get with what a rank of this node has committed, or lets it wait for that (PMIX-33).
func (g *group) awaitCommit(of *localRank, w *pendingGet, most getTimeout) {
	g.mu.Lock()
	shown, status := of.pairsFor(w), message.Success
	switch {
	case shown.hasKey(w.key):
	case most < 0, of.exited, of.state == Finalized:
		status = message.NotFound
	case g.isEnding():
		status = message.Failed
	case w.asker == nil && of.waitingGets.count >= maxRemoteGets:
		status = message.NoMemory
	default:
		of.waitingGets.addGet(w)
		if most > 0 {
			g.limitWait(&of.waitingGets, w, time.Duration(most))
		} else if of.hasCommitted {
			g.limitWait(&of.waitingGets, w, defaultGetTimeout)
		}
		g.mu.Unlock()
		return
	}
	data := shown.pairs
	g.mu.Unlock()
	w.answer(data, status)
}

// pairsFor returns what a rank has committed for ranks of its node, or for those elsewhere.
func (r *localRank) pairsFor(w *pendingGet) *pairSet {
	if w.asker == nil {
		return &r.remotePairs
	}
	return &r.nodePairs
}

// startCommitTimers notes that a rank has committed: those who wait for it still do so no longer than patience from the
// first time on, unless they have said how long. It needs g.mu.
func (g *group) startCommitTimers(r *localRank) {
	if r.hasCommitted {
		return
	}
	r.hasCommitted = true
	r.waitingGets.forEach(func(w *pendingGet) {
		if w.timer == nil {
			g.limitWait(&r.waitingGets, w, defaultGetTimeout)
		}
	})
}

// limitWait lets a Get that waits in a list do so no longer than a while. It needs g.mu.
func (g *group) limitWait(list *getQueue, w *pendingGet, after time.Duration) {
	w.timer = time.AfterFunc(after, func() {
		g.server.runTask(func() {
			if g.cancelGet(list, w) {
				w.answer(nil, message.NotFound)
			}
		})
	})
}

// cancelGet takes a Get from those who wait; false: it was answered.
func (g *group) cancelGet(list *getQueue, w *pendingGet) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return list.removeGet(w)
}

// finish ends a wait with all that the rank has committed (PMIX-35), or without.
func (w *pendingGet) finish(data []byte, s message.Status) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.answer(data, s)
}

func finishAll(waiting []*pendingGet, s message.Status) {
	for _, w := range waiting {
		w.finish(nil, s)
	}
}

// takeWaitingGets takes those out who wait for a rank of the group, wherever that is. All of them, or
// those that a group asks for.
func (g *group) takeWaitingGets(all bool, asker *group) (taken []*pendingGet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := func(list *getQueue) {
		taken = append(taken, list.takeAll(func(w *pendingGet) bool { return all || w.asker == asker })...)
	}
	for _, r := range g.byRank {
		from(&r.waitingGets)
	}
	for _, some := range g.remote.inFlight {
		for _, f := range some {
			from(&f.waiting)
		}
	}
	return taken
}
