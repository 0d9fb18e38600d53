/*
Package status is the feature of mpiexec that reports what each rank is doing (rule DIAG-12). The reports go to users
who run mpiexec --status, and to the user of this mpiexec when supervision asks for a report, for example after a
timeout.

	--status, supervise.InspectRanks --> InspectRanks --> all nodes --> RankStates --> table or reply
	                                                        |
	                               states of all ranks
	                                                        |
	--status, from a helper of another mpiexec <-- socket --'

	status.go           mpiexec's part
	helper.go           the helper's part
	package nodestate   the socket, and the sockets of other helpers
*/
package status

import (
	"fmt"

	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

// InspectRanks requests the state of each rank of the node.
type InspectRanks struct{ wire.AnsweredBy[*RankStates] }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *InspectRanks) Fields(*wire.Codec) {}

// RankStates is the reply to InspectRanks.
type RankStates struct{ Ranks []job.RankState }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *RankStates) Fields(c *wire.Codec) {
	wire.List(c, &m.Ranks, wire.Length{Name: "ranks", Max: wire.MaxOnNode}, (*wire.Codec).RankState)
}

func init() {
	wire.Register[InspectRanks](50, wire.Row{Sender: wire.Launcher, Phase: wire.Running, Example: func(int) wire.Message {
		return &InspectRanks{}
	}})
	wire.Register[RankStates](51, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 8 << 20, Example: func(rank int) wire.Message {
		return &RankStates{Ranks: []job.RankState{{Rank: rank, PID: 1, Phase: "running", PMI: job.PMIOpen, Barrier: 1, WaitsFor: "w", CPU: 1, WaitChannel: "c", ProcState: "S"}}}
	}})
	node.Admit(checkStates)
}

// checkStates checks a report of the states of a node's ranks. The report may name each rank of the node once. The
// returned message is nil if mpiexec must ignore the report.
func checkStates(v *node.Validator, m *RankStates) (wire.Message, error) {
	seen := make(map[int]bool)
	for _, r := range m.Ranks {
		switch {
		case v.FindRank(r.Rank) == nil:
			return nil, node.NotOurRank(r.Rank)
		case seen[r.Rank]:
			return nil, node.InvalidValue(m, "rank", fmt.Sprint(r.Rank, " twice"))
		}
		seen[r.Rank] = true
	}
	return v.TakeReply(m)
}
