//go:build linux

package status

import (
	"slices"

	"remshell/feature/status/nodestate"
	"remshell/helper"
	"remshell/job"
	"remshell/pmiserver/pmix"
	"remshell/proc"
)

func init() {
	helper.Register(helper.Feature{Name: "status", Attach: attachHelper, RemoveLeftFiles: func(_ []string, killed job.ID) {
		nodestate.RemoveLeftSockets()
		nodestate.RemoveSocket(killed)
	}})
}

// A nodeStates collects the states of the ranks of one session. Only the session's goroutine uses it.
type nodeStates struct {
	session *helper.Session
	retired []job.RankState // the final states of ranks that the session has forgotten
	socket  nodestate.Socket
}

func attachHelper(s *helper.Session) {
	n := &nodeStates{session: s}
	helper.Handle(s, func(*InspectRanks) { s.Send(&RankStates{n.all()}) })
	s.Providers.CollectStates = nodestate.Collect
	s.Hooks.RankRetired.Add(func(r *helper.Rank) { n.retired = append(n.retired, stateOf(r, nil)) })
	s.Hooks.LongJobBegins.Add(func() { n.socket.Open(s.Prepare.Job, n.await) })
	s.Hooks.Closing.Add(func() { n.socket.Close() })
}

// all returns the states of all ranks that were started on this node, sorted by rank.
func (n *nodeStates) all() []job.RankState {
	all, tree := slices.Clone(n.retired), proc.ReadTree()
	var waiting map[pmix.WaitingRank]string
	if server := n.session.PMIxServer(); server != nil {
		waiting = server.WaitingRanks()
	}
	for _, r := range n.session.Ranks() {
		state := stateOf(r, tree)
		state.WaitsFor = waiting[pmix.WaitingRank{Group: r.Group().Prepare.Group.Name, Rank: r.Plan.Rank}]
		if state.WaitsFor == "" && !state.HasConnected() && r.SpeaksPMI() {
			state.WaitsFor = job.NotConnected
		}
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b job.RankState) int { return a.Rank - b.Rank })
	return all
}

// stateOf returns the current state of a rank. tree is the tree of all processes of this node.
func stateOf(r *helper.Rank, tree proc.Tree) job.RankState {
	state := job.RankState{Rank: r.Number, Phase: "starting", PMI: r.PMIState()}
	if r.Exit != nil { // its PID may be another process's by now
		state.Phase, state.CPU = "over", r.Exit.Usage.User+r.Exit.Usage.System
		return state
	}
	if info, ok := proc.ReadInfo(r.Child.PID); r.Child.PID != 0 && ok {
		worker := tree.ActiveChild(r.Child.PID)
		state.PID, state.Phase, state.CPU = r.Child.PID, "running", info.CPU+tree.CPU(r.Child.PID)
		state.Barrier = r.Barrier()
		state.WaitChannel = proc.WaitChannel(worker)
		if info, ok := proc.ReadInfo(worker); ok {
			state.ProcState = string(info.State)
		}
	}
	return state
}

// await returns the states of all ranks to the goroutine that serves the socket. The session's goroutine collects
// them. await returns false if the session is over.
func (n *nodeStates) await() (states []job.RankState, ok bool) {
	answer := make(chan []job.RankState, 1)
	n.session.Post(func() { answer <- n.all() })
	select {
	case states := <-answer:
		return states, true
	case <-n.session.Done():
		return nil, false
	}
}
