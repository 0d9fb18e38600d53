package pmix

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// handleGet handles a Get. It tries the cases in the order of the table in pmix-wire.md 6.4.
func (c *client) handleGet(q requestInfo, r *message.Get) {
	g := c.server.findGroup(r.Namespace)
	switch {
	case g != nil && g != c.group && r.Rank == bfrops.Wildcard:
		c.replyGroupInfo(q, g, r.Key)
	case g == nil, r.Rank >= bfrops.LocalPeers: // data of the whole group was in the job info
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

// replyGroupInfo replies with the job info of another group, if the job info contains the key.
func (c *client) replyGroupInfo(q requestInfo, g *group, key string) {
	if _, info, err := g.loadJobInfo(c.server.ctx); err == nil && hasKey(info, key) {
		reply := message.AppendStatus(message.NewReply(q.tag), message.Success)
		reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Wildcard}, info)
		c.reply(q, "job info", reply)
		return
	}
	c.replyStatus(q, message.NotFound)
}

// getJobInfo replies to a Get of a reserved key ("pmix...") from the job info about the rank that the request names. It
// never waits.
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

// A pendingGet is a Get that waits until a rank commits a key.
type pendingGet struct {
	asker     *group // group of the client; nil if another node asks
	askerRank int    // the client's rank
	key       string
	answer    func(data []byte, s message.Status) // called once, with all data of the rank or a status that says why not
	timer     *time.Timer                         // nil if there is no limit
	order     int                                 // position in the order of arrival
}

// newPendingGet creates a pendingGet for a client's request. If the rank already has too many pending Gets,
// newPendingGet replies with NoMemory and returns nil.
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

// replyFound replies to a Get with the data of a rank. ahead selects the data of further ranks that the reply also
// contains. If the rank is in another namespace, the reply begins with the job info of that namespace.
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

// defaultGetTimeout is how long a Get without a timeout waits for a key, counted from the first commit of the
// rank (rule PMIX-33).
const defaultGetTimeout = 2 * time.Second

// A getTimeout is how long a Get waits. 0 stands for defaultGetTimeout after the first commit of the rank.
// With a negative value the Get does not wait.
type getTimeout time.Duration

func getTimeoutOf(o message.Options) getTimeout {
	if o.Immediate() {
		return -1
	}
	return getTimeout(o.Timeout())
}

// awaitCommit answers a Get that requests data of a rank on this node. If the rank has not committed the key yet but
// may still do so, the Get waits for a commit (rule PMIX-33).
func (g *group) awaitCommit(source *localRank, w *pendingGet, timeout getTimeout) {
	g.mu.Lock()
	set, status := source.pairsFor(w), message.Success
	switch {
	case set.hasKey(w.key):
	case timeout < 0, source.exited, source.state == Finalized:
		status = message.NotFound
	case g.isEnding():
		status = message.Failed
	case w.asker == nil && source.waitingGets.count >= maxRemoteGets:
		status = message.NoMemory
	default:
		source.waitingGets.addGet(w)
		if timeout > 0 {
			g.limitWait(&source.waitingGets, w, time.Duration(timeout))
		} else if source.hasCommitted {
			g.limitWait(&source.waitingGets, w, defaultGetTimeout)
		}
		g.mu.Unlock()
		return
	}
	data := set.pairs
	g.mu.Unlock()
	w.answer(data, status)
}

// pairsFor returns that part of the rank's data which the requesting process may see. A rank can commit
// different data for processes on the same node and on other nodes.
func (r *localRank) pairsFor(w *pendingGet) *pairSet {
	if w.asker == nil {
		return &r.remotePairs
	}
	return &r.nodePairs
}

// startCommitTimers records that a rank has committed. At the rank's first commit, it starts the timers of Gets
// that wait for other data of the rank and have no timeout of their own. The caller holds g.mu.
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

// limitWait starts a timer after which a waiting Get is answered with NotFound. The caller holds g.mu.
func (g *group) limitWait(list *getQueue, w *pendingGet, after time.Duration) {
	w.timer = time.AfterFunc(after, func() {
		g.server.runTask(func() {
			if g.cancelGet(list, w) {
				w.answer(nil, message.NotFound)
			}
		})
	})
}

// cancelGet removes a Get from a queue. It returns false if the Get has already been answered.
func (g *group) cancelGet(list *getQueue, w *pendingGet) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return list.removeGet(w)
}

// finish stops the timer of a Get and answers the Get. If s is Success, the answer contains data, which is all
// data of the rank and not only the requested key (rule PMIX-35).
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

// takeWaitingGets removes and returns the Gets that wait for data of the group's ranks, on any node. If all is false,
// it takes only Gets that were sent by ranks of the group asker.
func (g *group) takeWaitingGets(all bool, asker *group) (removed []*pendingGet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	take := func(list *getQueue) {
		removed = append(removed, list.takeAll(func(w *pendingGet) bool { return all || w.asker == asker })...)
	}
	for _, r := range g.byRank {
		take(&r.waitingGets)
	}
	for _, some := range g.remote.inFlight {
		for _, f := range some {
			take(&f.waiting)
		}
	}
	return removed
}
