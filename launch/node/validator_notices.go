package node

import (
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// maxNotices is how many events of its ranks a node may have unanswered (TRUST-4).
const maxNotices = 1 << 6

// checkNotify checks an event that a rank of the node sends to others. The rank may have exited meanwhile.
func (v *Validator) checkNotify(m *wire.Notify) (wire.Message, error) {
	p := v.groups[m.Group]
	switch {
	case p == nil || m.Rank >= p.size || !v.hasRank(p, m.Rank):
		return nil, NotOurRank(m.Rank)
	case p.phase < startSent:
		return nil, TooEarly(m)
	case m.ID <= v.notices.lastID:
		return nil, InvalidValue(m, "ID", m.ID)
	case v.notices.unanswered >= maxNotices:
		return nil, Violationf("it sent %d events at once", maxNotices+1)
	}
	if _, err := fence.Members(m.To).Matcher(); err != nil {
		return nil, InvalidValue(m, "list of members", len(m.To))
	}
	v.notices.lastID = m.ID
	admitted, err := v.UnlessDrained(v.UnlessEnding(m))
	if admitted != nil {
		v.notices.unanswered++
	}
	return admitted, err
}

// checkShowHelp checks a help text of a rank's library. Most come when the job ends, so they are let
// through until the node is drained.
func (v *Validator) checkShowHelp(m *wire.ShowHelp) (wire.Message, error) {
	s := v.FindRank(m.Rank)
	switch {
	case s == nil:
		return nil, NotOurRank(m.Rank)
	case s.phase.Load() == rankPlanned:
		return nil, TooEarly(m)
	}
	if err := v.helpTexts.checkNext(m, m.ID); err != nil {
		return nil, err
	}
	admitted, err := v.UnlessDrained(m, nil)
	if admitted != nil {
		v.helpTexts.unanswered++
	}
	return admitted, err
}
