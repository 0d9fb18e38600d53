package fetches

import (
	"remshell/launch"
	"remshell/launch/supervise"
)

func init() { launch.Register(launch.Feature{Name: "fetches", Attach: attach}) }

func attach(j *launch.Job) {
	f := &forwarder{job: j, pending: make(map[int]pendingFetch)}
	launch.Handle(j, f.forwardFetch)
	launch.Handle(j, f.forwardFetched)
}

// A forwarder forwards Fetch messages to the node of the rank that has the data, and forwards the replies to the node
// that sent the request.
type forwarder struct {
	job     *launch.Job
	last    int
	pending map[int]pendingFetch // by our own request ID
}

// A pendingFetch is a forwarded Fetch message that has no reply yet.
type pendingFetch struct {
	asker *launch.Node
	id    int // the asker's request ID
}

// These are the limits on requests for data on another node (rule PMIX-63).
const (
	maxFetches = 1 << 20  // pending requests of the job
	maxBacklog = 64 << 20 // bytes queued for a node
)

// forwardFetch forwards a request for a rank's data to the rank's node.
func (f *forwarder) forwardFetch(n *launch.Node, m *Fetch) []supervise.Event {
	g := f.job.GroupNamed(m.Group)
	switch {
	case g == nil || m.Rank >= len(g.NodeOfRank): // the group is over
		n.Send(&Fetched{ID: m.ID})
		return nil
	case len(f.pending) >= maxFetches:
		n.Send(&Fetched{ID: m.ID, Err: "too many requests for data of other ranks are open at once"})
		return nil
	}
	f.last++
	f.pending[f.last] = pendingFetch{n, m.ID}
	f.job.Nodes[g.NodeOfRank[m.Rank]].Send(&Fetch{ID: f.last, Group: m.Group, Rank: m.Rank, Key: m.Key, Timeout: m.Timeout})
	return nil
}

// forwardFetched forwards a reply to the node that has sent the request. If too much data is queued for that node, it
// sends the node an error instead.
func (f *forwarder) forwardFetched(_ *launch.Node, m *Fetched) []supervise.Event {
	fetch := f.pending[m.ID] // it exists: the validator has checked the ID
	delete(f.pending, m.ID)
	answer := &Fetched{ID: fetch.id, Found: m.Found, Data: m.Data, Err: m.Err}
	if len(m.Data) > 0 && fetch.asker.Backlog() > maxBacklog {
		answer = &Fetched{ID: fetch.id, Err: "more than 64 MiB of data wait to be sent to the node"}
	}
	fetch.asker.Send(answer)
	return nil
}
