package node

import "remshell/wire"

// This file is what a validator knows of direct gets: those of the node's ranks, and those of
// others that its helper answers (TRUST-3: for its own ranks alone, since it was asked for them).

// fetchState are the direct gets that a helper has to do with.
type fetchState struct {
	lastID     int
	unanswered int          // of its own, without an answer
	forOthers  map[int]bool // of others, by our number
}

// maxFetches is how many direct gets of its ranks a node may have under way (PMIX-63).
const maxFetches = 1 << 12

// checkFetch hears that a rank wants what one of another node has committed.
func (v *validator) checkFetch(m *wire.Fetch) (wire.Message, error) {
	p := v.groups[m.Group]
	switch {
	case p == nil: // of other nodes alone; mpiexec knows whether it is there
		if err := v.progress.checkStarted(m); err != nil {
			return nil, err
		}
	case p.phase < startSent:
		return nil, errEarly(m)
	case m.Rank >= p.size:
		return nil, errNotOurRank(p.first + m.Rank)
	case v.hasRank(p, m.Rank):
		return nil, errValue(m, "rank", m.Rank)
	}
	switch {
	case m.ID <= v.fetches.lastID:
		return nil, errValue(m, "ID", m.ID)
	case v.fetches.unanswered >= maxFetches:
		return nil, violation("it sent %d Fetches at once", maxFetches+1)
	}
	v.fetches.lastID = m.ID
	admitted, err := v.unlessDrained(v.unlessEnding(m))
	if admitted != nil {
		v.fetches.unanswered++
	}
	return admitted, err
}

// hasRank reports whether a rank of a group is on the node.
func (v *validator) hasRank(p *localGroup, rank int) bool {
	s := v.findRank(p.first + rank)
	return s != nil && s.group == p
}

// checkFetched hears what a rank of the node has committed: each question is answered once.
func (f *fetchState) checkFetched(m *wire.Fetched) error {
	if !f.forOthers[m.ID] {
		return errNotAsked
	}
	delete(f.forOthers, m.ID)
	return nil
}
