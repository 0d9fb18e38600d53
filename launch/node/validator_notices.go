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
	case p == nil || m.Rank >= p.size || !v.HasRank(p, m.Rank):
		return nil, NotOurRank(m.Rank)
	case p.phase < startSent:
		return nil, TooEarly(m)
	}
	if err := v.notices.CheckNext(m, m.ID, maxNotices, "events"); err != nil {
		return nil, err
	}
	if _, err := fence.Members(m.To).Matcher(); err != nil {
		return nil, InvalidValue(m, "list of members", len(m.To))
	}
	return v.notices.Count(v.UnlessDrained(v.UnlessEnding(m)))
}
