//go:build linux

package stacks

import (
	"slices"
	"time"

	"remshell/helper"
	"remshell/idset"
	"remshell/job"
	"remshell/launch"
	"remshell/proc"
	"remshell/stack"
	"remshell/stack/trace"
	"remshell/wire"
)

func init() {
	helper.Register(helper.Feature{Name: "stacks", Attach: attachHelper})
}

// A nodeStacks gathers the stacks of the ranks of one session. Only the session's goroutine uses it.
type nodeStacks struct {
	session *helper.Session
	current *GatherStacks       // in progress; nil: none
	next    *GatherStacks       // requested meanwhile, after mpiexec gave up on the one in progress; nil: none
	retired []int               // ranks that the session has forgotten
	prints  map[int]fingerprint // by rank, of the last reading
}

func attachHelper(s *helper.Session) {
	n := &nodeStacks{session: s}
	helper.Handle(s, n.request)
	s.Hooks.GatherStacks.Add(n.gather)
	s.Hooks.RankRetired.Add(func(r *helper.Rank) { n.retired = append(n.retired, r.Number) })
}

func (n *nodeStacks) request(m *GatherStacks) {
	if n.current != nil {
		n.next = m
		return
	}
	n.current = m
	n.session.RequestStacks()
}

// watchTime is how long the helper watches whether ranks make progress. The ranks are running during this time.
const watchTime = 500 * time.Millisecond

// gather starts a goroutine that reads the stacks of the ranks, because reading may take seconds.
func (n *nodeStacks) gather() {
	s, m := n.session, n.current
	if m == nil {
		return
	}
	var targets []target
	ended := slices.Clone(n.retired)
	tree := proc.ReadTree()
	for _, r := range s.Ranks() {
		switch {
		case r.IsAlive():
			targets = append(targets, target{r.Number, tree.ActiveChild(r.Child.PID)})
		case r.Exit != nil:
			ended = append(ended, r.Number)
		}
	}
	slices.SortFunc(targets, func(a, b target) int { return a.rank - b.rank })
	deadline := time.Now().Add(launch.StackTime)
	go func() {
		g := gatherStacks(targets, deadline)
		report, prints := g.report, g.prints
		var moved []int
		if m.Watch {
			moved = watchSlots(g.slots, func(rank int) stack.Memory {
				return trace.MemoryOf(targets[slices.IndexFunc(targets, func(t target) bool { return t.rank == rank })].pid)
			}, watchTime)
		}
		if len(ended) > 0 {
			slices.Sort(ended)
			report.Groups = append(report.Groups, job.StackGroup{Ranks: slices.Compact(ended), Threads: len(ended), State: job.StackEnded, Note: "the process of the rank has ended"})
		}
		report = wire.TruncateStacks(report, maxGroupsBytes)
		s.Post(func() {
			s.Send(&StackGroups{report, idset.New(append(moved, movedSince(n.prints, prints)...)...)})
			n.prints = prints
			n.current = nil
			s.StacksReported()
			if next := n.next; next != nil {
				n.next = nil
				n.request(next)
			}
		})
	}()
}
