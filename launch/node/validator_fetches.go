package node

import "remshell/wire"

// This file checks direct gets (PMIx): requests of the node's ranks, and replies of its helper to ranks
// of other nodes. A helper replies only to requests, which are about its own ranks (TRUST-3).

// fetchState is the state of the direct gets that involve one helper.
type fetchState struct {
	RankRequests              // of the node's ranks
	forOthers    map[int]bool // requests of other nodes that the helper has to answer, by mpiexec's ID
}

// maxFetches is how many direct gets of its ranks a node may have open (PMIX-63).
const maxFetches = 1 << 12

// checkFetch checks a request for the data that a rank of another node has committed.
func (v *Validator) checkFetch(m *wire.Fetch) (wire.Message, error) {
	p := v.groups[m.Group]
	switch {
	case p == nil: // the group is on other nodes only; mpiexec knows whether it exists
		if err := v.CheckStarted(m); err != nil {
			return nil, err
		}
	case p.phase < startSent:
		return nil, TooEarly(m)
	case m.Rank >= p.size:
		return nil, NotOurRank(p.first + m.Rank)
	case v.hasRank(p, m.Rank):
		return nil, InvalidValue(m, "rank", m.Rank)
	}
	if err := v.fetches.CheckNext(m, m.ID, maxFetches, "Fetches"); err != nil {
		return nil, err
	}
	return v.fetches.Count(v.UnlessDrained(v.UnlessEnding(m)))
}

// hasRank reports whether a rank of a group is on the node.
func (v *Validator) hasRank(p *localGroup, rank int) bool {
	s := v.FindRank(p.first + rank)
	return s != nil && s.group == p
}

// checkFetched checks a reply with the data of one of the node's ranks. Each request has one reply.
func (f *fetchState) checkFetched(m *wire.Fetched) error {
	if !f.forOthers[m.ID] {
		return ErrNotAsked
	}
	delete(f.forOthers, m.ID)
	return nil
}
