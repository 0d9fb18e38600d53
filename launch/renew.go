package launch

import (
	"context"
	"slices"
	"time"

	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/wire"
)

/*
Nodes go from one attempt of a job to the next, with their connections, helpers and claims
(survive.md SV-2):

	fleet of attempt 0 --renew--> kept --fleet of attempt 1, fence, pause--> reserve.Reserve
	                                                    '--> after restart.Keep: letGo
*/

// endConversations keeps the nodes that live for the next attempt, or says Bye to all.
func (f *runningJob) endConversations(again bool) {
	cpus := make(map[*jobNode]int, len(f.nodes)) // of the ranks of the command line
	for i, n := range f.groups[0].nodes {
		cpus[n] = f.groups[0].plan.Nodes[i].CPUs()
	}
	along := f.claimedForMove()
	for _, n := range f.nodes {
		if again && n.lost == nil && n.drained {
			f.keptNodes = append(f.keptNodes, reserve.KeptNode{Node: n.Successor(), ClaimedCPUs: max(cpus[n], along[n.Name()])})
			continue
		}
		n.Send(&wire.Bye{})
	}
	for _, s := range f.standby {
		if again {
			f.keptNodes = append(f.keptNodes, reserve.KeptNode{Node: s.Successor(), ClaimedCPUs: max(s.ClaimedCPUs, along[s.Name()])})
			continue
		}
		s.Send(&wire.Bye{})
	}
	if !again {
		f.waitForHelpers()
	}
}

// leaveTimeout is how long helpers may take to leave.
const leaveTimeout = time.Second

// waitForHelpers waits until the helpers have left, and with them what the job claims: the next job shall
// find the CPUs free. What comes of other things meanwhile is not lost.
func (f *runningJob) waitForHelpers() {
	staying := make(map[*node.Node]bool)
	for _, n := range f.nodes {
		if n.lost == nil {
			staying[n.Node.Node] = true
		}
	}
	for _, s := range f.standby {
		staying[s.Node] = true
	}
	var later []any
	for deadline := time.Now().Add(leaveTimeout); len(staying) > 0; {
		events := f.events.Take(context.Background(), deadline)
		if len(events) == 0 {
			break
		}
		for _, event := range events {
			if e, left := event.(node.Disconnected); left {
				delete(staying, e.From)
			} else {
				later = append(later, event)
			}
		}
	}
	for _, event := range later {
		f.events.Put(event)
	}
}

// takeOverNodes takes nodes over from the attempt before, and begins to listen to them.
func (f *runningJob) takeOverNodes(kept []reserve.KeptNode) {
	f.keptNodes = kept
	for _, k := range kept {
		go f.env.Listener.Listen(k.Node)
	}
}

// remainingKept sees which of them are left, at the moment: one that was lost since is a candidate like any.
func (f *runningJob) remainingKept() []reserve.KeptNode {
	for _, event := range f.events.Take(context.Background(), time.Now()) {
		if e, lost := event.(node.Disconnected); lost {
			f.keptNodes = slices.DeleteFunc(f.keptNodes, func(k reserve.KeptNode) bool { return k.Node == e.From })
			go e.From.Close()
		}
	}
	return f.keptNodes
}

// releaseKept gives them up, with all that they claim.
func (f *runningJob) releaseKept() {
	for _, k := range f.keptNodes {
		k.Send(&wire.Bye{})
		k.Close()
	}
	f.keptNodes = nil
}
