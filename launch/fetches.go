package launch

import "remshell/wire"

// A fetchService takes direct gets from the node of who asks to that of the rank that is asked for, and
// the answers back (PMIX-62). It holds none of the data.
type fetchService struct {
	last    int
	pending map[int]pendingFetch // by our number
}

// A pendingFetch is one that is not answered.
type pendingFetch struct {
	asker *jobNode
	id    int // its own
}

// Bounds of direct gets (PMIX-63).
const (
	maxFetches = 1 << 20  // of the job that are open
	maxBacklog = 64 << 20 // bytes that a node has not taken yet
)

// forwardFetch asks the node of a rank for what it has committed.
func (f *runningJob) forwardFetch(n *jobNode, m *wire.Fetch) {
	g := f.groupNamed(m.Group)
	switch {
	case g == nil || m.Rank >= len(g.nodeOfRank): // it is over
		n.Send(&wire.Fetched{ID: m.ID})
		return
	case len(f.fetches.pending) >= maxFetches:
		n.Send(&wire.Fetched{ID: m.ID, Err: "too many ranks are asked for at once"})
		return
	case f.fetches.pending == nil:
		f.fetches.pending = make(map[int]pendingFetch)
	}
	f.fetches.last++
	f.fetches.pending[f.fetches.last] = pendingFetch{n, m.ID}
	f.nodes[g.nodeOfRank[m.Rank]].Send(&wire.Fetch{ID: f.fetches.last, Group: m.Group, Rank: m.Rank, Key: m.Key, Timeout: m.Timeout})
}

// forwardFetched hands an answer to the node that has asked. One that does not read what it is sent gets no
// more data.
func (f *runningJob) forwardFetched(m *wire.Fetched) {
	asked := f.fetches.pending[m.ID] // there is one: its validator has let it through
	delete(f.fetches.pending, m.ID)
	answer := &wire.Fetched{ID: asked.id, Found: m.Found, Data: m.Data, Err: m.Err}
	if len(m.Data) > 0 && asked.asker.Backlog() > maxBacklog {
		answer = &wire.Fetched{ID: asked.id, Err: "more than 64 MiB are on the way to the node"}
	}
	asked.asker.Send(answer)
}
