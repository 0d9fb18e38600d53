package node

import "remshell/wire"

// This file is what a validator knows of direct gets: those of the node's ranks, and those of
// others that its helper answers (TRUST-3: for its own ranks alone, since it was asked for them).

// fetches are the direct gets that a helper has to do with.
type fetches struct {
	lastID  int
	unheard int          // of its own, without an answer
	asked   map[int]bool // of others, by our number
}

// maxFetches is how many direct gets of its ranks a node may have under way (PMIX-63).
const maxFetches = 1 << 12

// fetch hears that a rank wants what one of another node has committed.
func (v *validator) fetch(m *wire.Fetch) (wire.Message, error) {
	p := v.groups[m.Group]
	switch {
	case p == nil: // of other nodes alone; mpiexec knows whether it is there
		if err := v.course.begun(m); err != nil {
			return nil, err
		}
	case p.phase < letGo:
		return nil, errEarly(m)
	case m.Rank >= p.size:
		return nil, errStranger(p.first + m.Rank)
	case v.isOf(p, m.Rank):
		return nil, errValue(m, "rank", m.Rank)
	}
	switch {
	case m.ID <= v.fetches.lastID:
		return nil, errValue(m, "ID", m.ID)
	case v.fetches.unheard >= maxFetches:
		return nil, violation("it sent %d Fetches at once", maxFetches+1)
	}
	v.fetches.lastID = m.ID
	admitted, err := v.unlessGone(v.unlessEnding(m))
	if admitted != nil {
		v.fetches.unheard++
	}
	return admitted, err
}

// isOf reports whether a rank of a group is on the node.
func (v *validator) isOf(p *localGroup, rank int) bool {
	s := v.rank(p.first + rank)
	return s != nil && s.group == p
}

// answered hears what a rank of the node has committed: each question is answered once.
func (f *fetches) answered(m *wire.Fetched) error {
	if !f.asked[m.ID] {
		return errUnasked
	}
	delete(f.asked, m.ID)
	return nil
}
