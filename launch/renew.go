package launch

import (
	"context"
	"maps"
	"slices"
	"time"

	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/wire"
)

/*
Nodes pass from one attempt of a job to the next, with their connections, helpers and claims
(survive.md SV-2):

	Job 0 --Successor--> keptNodes --Job 1, fence, pause--> reserve.Reserve
	                              '--> after restart.KeepTime: releaseKept
*/

// keepOrReleaseNodes ends the use of an attempt's helpers (an attempt is one run of all ranks). If continues is true,
// helpers on working nodes stay connected for the next attempt. All other helpers receive Bye, which makes them exit.
func (j *Job) keepOrReleaseNodes(continues bool) {
	cpus := make(map[*Node]int, len(j.Nodes)) // of the ranks of the command line
	for i, n := range j.Groups[0].Nodes {
		cpus[n] = j.Groups[0].Plan.Nodes[i].CPUs()
	}
	next := make(map[string]int) // of the next attempt
	for _, claims := range j.Hooks.NextClaims {
		maps.Copy(next, claims())
	}
	for _, n := range j.Nodes {
		if continues && n.Lost == nil && n.drained {
			j.keptNodes = append(j.keptNodes, reserve.KeptNode{Node: n.Successor(), ClaimedCPUs: max(cpus[n], next[n.Name()])})
			continue
		}
		n.Send(&wire.Bye{})
	}
	for _, s := range j.Standby {
		if continues {
			j.keptNodes = append(j.keptNodes, reserve.KeptNode{Node: s.Successor(), ClaimedCPUs: max(s.ClaimedCPUs, next[s.Name()])})
			continue
		}
		s.Send(&wire.Bye{})
	}
	if !continues {
		j.waitForHelpers()
	}
}

// leaveTimeout is how long helpers may take to exit after they have received Bye.
const leaveTimeout = time.Second

// waitForHelpers waits up to leaveTimeout until the helpers have exited. Their exit releases the job's claims, so that
// the next job finds the CPUs free. Other events that arrive during this time stay in the inbox.
func (j *Job) waitForHelpers() {
	staying := make(map[*node.Node]bool)
	for _, n := range j.Nodes {
		if n.Lost == nil {
			staying[n.Node.Node] = true
		}
	}
	for _, s := range j.Standby {
		staying[s.Node] = true
	}
	var later []any
	for deadline := time.Now().Add(leaveTimeout); len(staying) > 0; {
		events := j.events.Take(context.Background(), deadline)
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
		j.events.Put(event)
	}
}

// takeOverNodes takes over nodes of the previous attempt (one run of all ranks) and starts to read their
// connections.
func (j *Job) takeOverNodes(nodes []reserve.KeptNode) {
	j.keptNodes = nodes
	for _, k := range nodes {
		go j.Env.Listener.Listen(k.Node)
	}
}

// remainingKept returns the nodes of the previous attempt that are still connected. A node that was lost since then can
// be used again like any other candidate.
func (j *Job) remainingKept() []reserve.KeptNode {
	for _, event := range j.events.Take(context.Background(), time.Now()) {
		if e, lost := event.(node.Disconnected); lost {
			j.keptNodes = slices.DeleteFunc(j.keptNodes, func(k reserve.KeptNode) bool { return k.Node == e.From })
			go e.From.Close()
		}
	}
	return j.keptNodes
}

// releaseKept disconnects the nodes that were kept from the previous attempt, which releases the claims
// there.
func (j *Job) releaseKept() {
	for _, k := range j.keptNodes {
		k.Send(&wire.Bye{})
		k.Close()
	}
	j.keptNodes = nil
}
