package launch

import (
	"time"

	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// notify passes an event of a rank on to the other nodes where somebody may want to hear of it, and says
// so. A node that does not read what it is sent misses it.
func (f *fleet) notify(n *member, m *wire.Notify) {
	event := *m
	event.ID = 0
	frame := wire.Encode(&event)
	for _, other := range f.nodesOf(fence.Members(m.To)) {
		if other != n && other.Backlog() <= maxBacklog {
			other.SendNotice(frame)
		}
	}
	n.Send(&wire.Notified{ID: m.ID})
}

// nodesOf lists the nodes of the groups that have members, each once; of no members, all.
func (f *fleet) nodesOf(members fence.Members) []*member {
	groups := members.Groups()
	if members == "" {
		return f.nodes
	}
	if len(groups) == 1 {
		if g := f.groupNamed(groups[0]); g != nil {
			return g.nodes
		}
		return nil
	}
	seen, all := make(map[*member]bool), []*member(nil)
	for _, name := range groups {
		if g := f.groupNamed(name); g != nil {
			for _, n := range g.nodes {
				if !seen[n] {
					seen[n], all = true, append(all, n)
				}
			}
		}
	}
	return all
}

// utter answers whether a text that a rank's library has to say was said by another rank.
func (f *fleet) utter(n *member, m *wire.Utter) {
	n.Send(&wire.Uttered{ID: m.ID, Known: f.repeats.IsKnown(supervise.Topic{File: m.File, Name: m.Name}, time.Now())})
}

// sayAll tells the user several things.
func (f *fleet) sayAll(lines []string) {
	for _, line := range lines {
		f.env.Say(line)
	}
}
