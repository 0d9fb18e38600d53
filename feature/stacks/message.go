/*
Package stacks is the feature of mpiexec that prints the stacks of all ranks as one tree. It does so when the time
limit of -timeout is reached (--on-timeout stacks), or when a user runs mpijob status JOB --stacks.

	supervise.InspectRanks, request of a user --> GatherStacks --> all nodes --> StackGroups --> text, or reply
	                                                                  |
	                    package stack/trace: stops each thread for a moment
	                    package stack:       unwinds and names what was copied
	                    package tree:        joins equal stacks, on the node and in mpiexec

	launch.go   mpiexec's part
	helper.go   the helper's part; gather.go reads the stacks of processes
	movement.go whether ranks make progress between two readings; traffic.go detects messages
	query.go    mpijob's part
*/
package stacks

import (
	"fmt"
	"slices"

	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

// GatherStacks requests the stacks of all ranks of the node. The helper sends no SIGQUIT to the ranks until it has sent
// the reply.
type GatherStacks struct {
	wire.AnsweredBy[*StackGroups]

	Watch bool // also watch for a moment whether ranks move
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *GatherStacks) Fields(c *wire.Codec) {
	c.Bool(&m.Watch)
}

// StackGroups is the reply to GatherStacks.
type StackGroups struct {
	Report job.StackReport
	Moved  []int
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *StackGroups) Fields(c *wire.Codec) {
	c.StackReport(&m.Report)
	c.Nums(&m.Moved, wire.Length{Name: "ranks", Max: wire.MaxOnNode}, wire.RankRange)
}

// maxGroupsBytes is the maximum size of a StackGroups.
const maxGroupsBytes = 1 << 20

func init() {
	wire.Register[GatherStacks](102, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 64, Example: func(int) wire.Message {
		return &GatherStacks{Watch: true}
	}})
	wire.Register[StackGroups](103, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: maxGroupsBytes, Example: func(rank int) wire.Message {
		return &StackGroups{Report: job.StackReport{Notes: []string{"n"}, Groups: []job.StackGroup{{Ranks: []int{rank}, Nodes: []string{"a"}, Threads: 1, State: job.StackStopped,
			Signal: "s", WaitsIn: "w", Note: "o", Thread: "t", Frames: []job.StackFrame{{Function: "f", File: "f.c", Line: 1, Library: "l"}}}}}, Moved: []int{rank}}
	}})
	node.Admit(checkGroups)
}

// checkGroups checks the stacks that a node has sent. Each group must have a known state, and list ranks of the node in
// ascending order.
func checkGroups(v *node.Validator, m *StackGroups) (wire.Message, error) {
	for _, g := range m.Report.Groups {
		if !g.State.IsKnown() {
			return nil, node.InvalidValue(m, "state", fmt.Sprintf("%q", g.State))
		}
		if !slices.IsSorted(g.Ranks) || len(g.Ranks) == 0 {
			return nil, node.InvalidValue(m, "ranks", fmt.Sprint(g.Ranks[:min(len(g.Ranks), 8)]))
		}
		for _, rank := range g.Ranks {
			if v.FindRank(rank) == nil {
				return nil, node.NotOurRank(rank)
			}
		}
	}
	for _, rank := range m.Moved {
		if v.FindRank(rank) == nil {
			return nil, node.NotOurRank(rank)
		}
	}
	return v.TakeReply(m)
}
