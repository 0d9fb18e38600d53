package node

import (
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// maxNotices is how many events of its ranks a node may have under way (TRUST-4).
const maxNotices = 1 << 6

// notify hears of an event that a rank of the node tells others of. One that has ended meanwhile may
// have said so before.
func (v *validator) notify(m *wire.Notify) (wire.Message, error) {
	p := v.groups[m.Group]
	switch {
	case p == nil || m.Rank >= p.size || !v.isOf(p, m.Rank):
		return nil, errStranger(m.Rank)
	case p.phase < letGo:
		return nil, errEarly(m)
	case m.ID <= v.notices.lastID:
		return nil, errValue(m, "ID", m.ID)
	case v.notices.unheard >= maxNotices:
		return nil, violation("it sent %d events at once", maxNotices+1)
	}
	if _, err := fence.Members(m.To).Finder(); err != nil {
		return nil, errValue(m, "list of members", len(m.To))
	}
	v.notices.lastID = m.ID
	admitted, err := v.unlessGone(v.unlessEnding(m))
	if admitted != nil {
		v.notices.unheard++
	}
	return admitted, err
}

// utter hears that the library of a rank has something to say, until nothing is left of it here: most of it
// comes when a job ends.
func (v *validator) utter(m *wire.Utter) (wire.Message, error) {
	s := v.rank(m.Rank)
	switch {
	case s == nil:
		return nil, errStranger(m.Rank)
	case s.life.Load() == planned:
		return nil, errEarly(m)
	}
	if err := v.texts.next(m, m.ID); err != nil {
		return nil, err
	}
	admitted, err := v.unlessGone(m, nil)
	if admitted != nil {
		v.texts.unheard++
	}
	return admitted, err
}
