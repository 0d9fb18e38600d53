package events

import (
	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

func init() { launch.Register(launch.Feature{Name: "events", Attach: attach}) }

func attach(j *launch.Job) {
	launch.Handle(j, func(n *launch.Node, m *Notify) []supervise.Event {
		forward(j, n, m)
		return nil
	})
}

// maxBacklog is the maximum number of bytes that may be queued for a node to which an event is forwarded.
const maxBacklog = 64 << 20

// forward forwards an event of a rank on node n to the other nodes that may have receivers for it, and then sends the
// reply Notified to n. A node for which more than maxBacklog bytes are queued does not receive the event.
func forward(j *launch.Job, n *launch.Node, m *Notify) {
	event := *m
	event.ID = 0
	frame := wire.Encode(&event)
	for _, other := range nodesOf(j, fence.Members(m.To)) {
		if other != n && other.Backlog() <= maxBacklog {
			other.SendFrame(frame)
		}
	}
	n.Send(&Notified{ID: m.ID})
}

// nodesOf returns the nodes of the members' groups, each node once. It returns all nodes if members is empty.
func nodesOf(j *launch.Job, members fence.Members) []*launch.Node {
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
	seen, all := make(map[*launch.Node]bool), []*launch.Node(nil)
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
