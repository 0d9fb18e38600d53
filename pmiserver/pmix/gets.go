package pmix

import (
	"fmt"
	"strings"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// get answers a Get, in the order of the table of pmix-wire.md 6.4.
func (c *client) get(q envelope, r *message.Get) {
	g := c.server.find(r.Namespace)
	switch {
	case g == nil, r.Rank >= bfrops.LocalPeers: // what is of all was in the job info
		c.status(q, message.NotFound)
	case int64(r.Rank) >= int64(g.Size):
		c.status(q, message.NotFound)
	case strings.HasPrefix(r.Key, "pmix"):
		c.getKnown(q, g, r)
	case g.rank(int64(r.Rank)) != nil:
		c.getLocal(q, g, g.rank(int64(r.Rank)), r)
	default:
		c.getRemote(q, g, r)
	}
}

// getKnown answers what is not committed but known, and never waits.
func (c *client) getKnown(q envelope, g *group, r *message.Get) {
	view, _, err := g.know(c.server.ctx)
	if err != nil {
		c.status(q, message.NotFound)
		return
	}
	if pairs := view.Rank(int(r.Rank)); hasKey(pairs, r.Key) {
		c.found(q, g, int(r.Rank), pairs)
		return
	}
	c.status(q, message.NotFound)
}

// getLocal answers with what a rank of this node has committed, or waits for it (PMIX-33).
func (c *client) getLocal(q envelope, g *group, of *localRank, r *message.Get) {
	g.mu.Lock()
	data := of.forNode
	if hasKey(data, r.Key) {
		g.mu.Unlock()
		c.found(q, g, of.number, data)
		return
	}
	status := message.NotFound
	switch {
	case r.Options.Immediate() || of.gone || of.state == Finalized:
	case c.ending():
		status = message.Failed
	case len(of.waiting) >= maxWaiting:
		status = message.TooMuch
	default:
		g.wait(of, &pendingGet{client: c, question: q, key: r.Key}, r.Options)
		status = message.Success
	}
	g.mu.Unlock()
	if status != message.Success {
		c.status(q, status)
	}
}

// wait lets a Get wait for a rank of this node. It needs g.mu.
func (g *group) wait(of *localRank, w *pendingGet, o message.Options) {
	of.waiting = append(of.waiting, w)
	switch timeout := o.Timeout(); {
	case timeout > 0:
		g.limit(of, w, timeout)
	case of.committed:
		g.limit(of, w, patience)
	}
}

// getRemote answers with what fences have brought of a rank of another node.
func (c *client) getRemote(q envelope, g *group, r *message.Get) {
	if data := g.brought(int(r.Rank)); hasKey(data, r.Key) {
		c.found(q, g, int(r.Rank), data)
		return
	}
	c.status(q, message.NotFound)
}

// found answers a Get with pairs of a rank. One of another namespace is told of that first.
func (c *client) found(q envelope, g *group, rank int, pairs []byte) {
	reply := message.AppendStatus(message.NewReply(q.tag), message.Success)
	if g != c.group {
		if _, info, err := g.know(c.server.ctx); err == nil {
			reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Wildcard}, info)
		}
	}
	reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Rank(rank)}, pairs)
	c.reply(q, fmt.Sprintf("%d bytes", len(pairs)), reply)
}
