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

// renew keeps the nodes that live for the next attempt, or says Bye to all.
func (f *fleet) renew(again bool) {
	cpus := make(map[*member]int, len(f.nodes)) // of the ranks of the command line
	for i, n := range f.groups[0].nodes {
		cpus[n] = f.groups[0].plan.Nodes[i].CPUs()
	}
	along := f.takenAlong()
	for _, n := range f.nodes {
		if again && n.lost == nil && n.over {
			f.kept = append(f.kept, reserve.Kept{Node: n.Renew(), CPUs: max(cpus[n], along[n.Name()])})
			continue
		}
		n.Send(&wire.Bye{})
	}
	for _, s := range f.spares {
		if again {
			f.kept = append(f.kept, reserve.Kept{Node: s.Renew(), CPUs: max(s.CPUs, along[s.Name()])})
			continue
		}
		s.Send(&wire.Bye{})
	}
	if !again {
		f.awaitLeave()
	}
}

// leavePatience is how long helpers may take to leave.
const leavePatience = time.Second

// awaitLeave waits until the helpers have left, and with them what the job claims: the next job shall
// find the CPUs free. What comes of other things meanwhile is not lost.
func (f *fleet) awaitLeave() {
	staying := make(map[*node.Node]bool)
	for _, n := range f.nodes {
		if n.lost == nil {
			staying[n.Node.Node] = true
		}
	}
	for _, s := range f.spares {
		staying[s.Node] = true
	}
	var later []any
	for deadline := time.Now().Add(leavePatience); len(staying) > 0; {
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

// takeOver takes nodes over from the attempt before, and begins to listen to them.
func (f *fleet) takeOver(kept []reserve.Kept) {
	f.kept = kept
	for _, k := range kept {
		go f.env.Listener.Listen(k.Node)
	}
}

// stillKept sees which of them are left, at the moment: one that was lost since is a candidate like any.
func (f *fleet) stillKept() []reserve.Kept {
	for _, event := range f.events.Take(context.Background(), time.Now()) {
		if e, lost := event.(node.Disconnected); lost {
			f.kept = slices.DeleteFunc(f.kept, func(k reserve.Kept) bool { return k.Node == e.From })
			go e.From.Close()
		}
	}
	return f.kept
}

// letGo gives them up, with all that they claim.
func (f *fleet) letGo() {
	for _, k := range f.kept {
		k.Send(&wire.Bye{})
		k.Close()
	}
	f.kept = nil
}
