package launch

import "remshell/wire"

// A fetchService forwards direct gets (PMIx_Get of another rank's data) to that rank's node, and
// the replies back (PMIX-62). It stores no data.
type fetchService struct {
	last    int
	pending map[int]pendingFetch // by our own request ID
}

// A pendingFetch is a request that has no reply yet.
type pendingFetch struct {
	asker *Node
	id    int // the asker's request ID
}

// Limits of direct gets (PMIX-63).
const (
	maxFetches = 1 << 20  // pending requests of the job
	maxBacklog = 64 << 20 // bytes queued for a node
)

// forwardFetch asks the node of a rank for data that the rank has committed.
func (j *Job) forwardFetch(n *Node, m *wire.Fetch) {
	g := j.GroupNamed(m.Group)
	switch {
	case g == nil || m.Rank >= len(g.NodeOfRank): // the group is over
		n.Send(&wire.Fetched{ID: m.ID})
		return
	case len(j.fetches.pending) >= maxFetches:
		n.Send(&wire.Fetched{ID: m.ID, Err: "too many ranks are asked for at once"})
		return
	case j.fetches.pending == nil:
		j.fetches.pending = make(map[int]pendingFetch)
	}
	j.fetches.last++
	j.fetches.pending[j.fetches.last] = pendingFetch{n, m.ID}
	j.Nodes[g.NodeOfRank[m.Rank]].Send(&wire.Fetch{ID: j.fetches.last, Group: m.Group, Rank: m.Rank, Key: m.Key, Timeout: m.Timeout})
}

// forwardFetched forwards a reply to the node that asked. If too much is queued for that node, it
// gets an error instead of the data.
func (j *Job) forwardFetched(m *wire.Fetched) {
	fetch := j.fetches.pending[m.ID] // it exists: the validator has checked the ID
	delete(j.fetches.pending, m.ID)
	answer := &wire.Fetched{ID: fetch.id, Found: m.Found, Data: m.Data, Err: m.Err}
	if len(m.Data) > 0 && fetch.asker.Backlog() > maxBacklog {
		answer = &wire.Fetched{ID: fetch.id, Err: "more than 64 MiB are on the way to the node"}
	}
	fetch.asker.Send(answer)
}
