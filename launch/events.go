package launch

import (
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// maxBacklog is how many bytes may be queued for a node that gets events.
const maxBacklog = 64 << 20

// forwardEvent forwards an event of a rank to the other nodes that may have receivers for it, and
// confirms to n. A node with too much unsent data does not get the event.
func (j *Job) forwardEvent(n *Node, m *wire.Notify) {
	event := *m
	event.ID = 0
	frame := wire.Encode(&event)
	for _, other := range j.nodesOf(fence.Members(m.To)) {
		if other != n && other.Backlog() <= maxBacklog {
			other.SendNotice(frame)
		}
	}
	n.Send(&wire.Notified{ID: m.ID})
}

// nodesOf returns the nodes of the groups of members, each once. If members is empty, it returns
// all nodes.
func (j *Job) nodesOf(members fence.Members) []*Node {
	groups := members.Groups()
	if members == "" {
		return j.Nodes
	}
	if len(groups) == 1 {
		if g := j.GroupNamed(groups[0]); g != nil {
			return g.Nodes
		}
		return nil
	}
	seen, all := make(map[*Node]bool), []*Node(nil)
	for _, name := range groups {
		if g := j.GroupNamed(name); g != nil {
			for _, n := range g.Nodes {
				if !seen[n] {
					seen[n], all = true, append(all, n)
				}
			}
		}
	}
	return all
}
