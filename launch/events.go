package launch

import (
	"time"

	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// forwardEvent forwards an event of a rank to the other nodes that may have receivers for it, and
// confirms to n. A node with too much unsent data does not get the event.
func (f *runningJob) forwardEvent(n *jobNode, m *wire.Notify) {
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

// nodesOf returns the nodes of the groups of members, each once. If members is empty, it returns
// all nodes.
func (f *runningJob) nodesOf(members fence.Members) []*jobNode {
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
	seen, all := make(map[*jobNode]bool), []*jobNode(nil)
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

// showHelp tells a node whether another rank has already shown the same help text of its MPI
// library.
func (f *runningJob) showHelp(n *jobNode, m *wire.ShowHelp) {
	n.Send(&wire.ShowHelpReply{ID: m.ID, AlreadyShown: f.helpTexts.CountText(supervise.HelpTopic{File: m.File, Name: m.Topic}, time.Now())})
}

// reportLines reports each line to the user.
func (f *runningJob) reportLines(lines []string) {
	for _, line := range lines {
		f.env.Report(line)
	}
}
