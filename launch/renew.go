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
Nodes pass from one attempt of a job to the next, with their connections, helpers and claims
(survive.md SV-2):

	runningJob 0 --Successor--> keptNodes --runningJob 1, fence, pause--> reserve.Reserve
	                                            '--> after restart.KeepTime: releaseKept
*/

// endConversations keeps the connected nodes if another attempt follows, and sends Bye to all
// others.
func (f *runningJob) endConversations(again bool) {
	cpus := make(map[*jobNode]int, len(f.nodes)) // of the ranks of the command line
	for i, n := range f.groups[0].nodes {
		cpus[n] = f.groups[0].plan.Nodes[i].CPUs()
	}
	moveClaims := f.claimedForMove()
	for _, n := range f.nodes {
		if again && n.lost == nil && n.drained {
			f.keptNodes = append(f.keptNodes, reserve.KeptNode{Node: n.Successor(), ClaimedCPUs: max(cpus[n], moveClaims[n.Name()])})
			continue
		}
		n.Send(&wire.Bye{})
	}
	for _, s := range f.standby {
		if again {
			f.keptNodes = append(f.keptNodes, reserve.KeptNode{Node: s.Successor(), ClaimedCPUs: max(s.ClaimedCPUs, moveClaims[s.Name()])})
			continue
		}
		s.Send(&wire.Bye{})
	}
	if !again {
		f.waitForHelpers()
	}
}

// leaveTimeout is how long helpers may take to exit.
const leaveTimeout = time.Second

// waitForHelpers waits until the helpers have exited and so released the job's claims. A job that
// starts next finds the CPUs free. Other events that arrive meanwhile stay in the inbox.
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
			if e, disconnected := event.(node.Disconnected); disconnected {
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

// takeOverNodes takes over nodes of the previous attempt and starts to read their connections.
func (f *runningJob) takeOverNodes(kept []reserve.KeptNode) {
	f.keptNodes = kept
	for _, k := range kept {
		go f.env.Listener.Listen(k.Node)
	}
}

// remainingKept returns the kept nodes that are still connected. One that was lost is again a
// candidate like any other.
func (f *runningJob) remainingKept() []reserve.KeptNode {
	for _, event := range f.events.Take(context.Background(), time.Now()) {
		if e, lost := event.(node.Disconnected); lost {
			f.keptNodes = slices.DeleteFunc(f.keptNodes, func(k reserve.KeptNode) bool { return k.Node == e.From })
			go e.From.Close()
		}
	}
	return f.keptNodes
}

// releaseKept disconnects the kept nodes and so releases their claims.
func (f *runningJob) releaseKept() {
	for _, k := range f.keptNodes {
		k.Send(&wire.Bye{})
		k.Close()
	}
	f.keptNodes = nil
}
