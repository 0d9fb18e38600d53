package launch

import (
	"time"

	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// forwardEvent passes an event of a rank on to the other nodes where somebody may want to hear of it, and says
// so. A node that does not read what it is sent misses it.
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

// nodesOf lists the nodes of the groups that have members, each once; of no members, all.
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

// showHelp answers whether a text that a rank's library has to say was said by another rank.
func (f *runningJob) showHelp(n *jobNode, m *wire.ShowHelp) {
	n.Send(&wire.ShowHelpReply{ID: m.ID, AlreadyShown: f.helpTexts.CountText(supervise.HelpTopic{File: m.File, Name: m.Topic}, time.Now())})
}

// sayLines tells the user several things.
func (f *runningJob) sayLines(lines []string) {
	for _, line := range lines {
		f.env.Report(line)
	}
}
