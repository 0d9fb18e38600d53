package supervise

import (
	"fmt"
	"slices"

	"remshell/job"
)

// A rankTable records which node each rank of a job is on, and which ranks have started and ended.
type rankTable struct {
	RanksLeft int // ranks that have not ended
	NodesLeft int // nodes that are not drained
	nodes     []nodeState
	ranks     []rankState
	groups    []int // by group, the number of its first rank
	unstarted int   // ranks that do not run yet
}

type nodeState struct {
	name        string
	finished    bool // drained or lost
	noProcesses bool // no process is left
	toldToEnd   bool // its helper got a signal to end from outside

	ranks     []int // ascending; may lack ranks that have ended
	ranksLeft int   // ranks that have not ended
}

type rankState struct {
	node              int32 // int32 keeps this small: 5 MB for 10,000 hosts of 64 ranks
	over, groupKilled bool
}

// newRankTable returns the table of a job whose ranks are about to start.
func newRankTable(p job.Plan) rankTable {
	t := rankTable{RanksLeft: p.Size, NodesLeft: len(p.Nodes), ranks: make([]rankState, p.Size), groups: []int{0}, unstarted: p.Size}
	for i, n := range p.Nodes {
		node := nodeState{name: n.Name, ranksLeft: len(n.Ranks), ranks: make([]int, 0, len(n.Ranks))}
		for _, r := range n.Ranks {
			t.ranks[r.Rank].node = int32(i)
			node.ranks = append(node.ranks, r.Rank)
		}
		t.nodes = append(t.nodes, node)
	}
	return t
}

// Nodes returns the index of each rank's node, by the rank's number in the job.
func (t *rankTable) Nodes() []int {
	nodes := make([]int, len(t.ranks))
	for i, r := range t.ranks {
		nodes[i] = int(r.node)
	}
	return nodes
}

// addGroup adds the ranks of a spawned group to the table.
func (t *rankTable) addGroup(e GroupSpawned) {
	for _, name := range e.NewNodes {
		t.nodes = append(t.nodes, nodeState{name: name, finished: true})
	}
	t.groups = append(t.groups, len(t.ranks))
	for _, n := range e.Nodes {
		t.nodes[n].addRank(len(t.ranks), t.ranks)
		t.ranks = append(t.ranks, rankState{node: int32(n)})
		if t.nodes[n].finished {
			t.nodes[n].finished = false
			t.NodesLeft++
		}
	}
	t.RanksLeft += len(e.Nodes)
	t.unstarted += len(e.Nodes)
}

// addRank adds a rank to the list of a node's ranks. If the list contains many ranks that have ended, it removes those
// from the list.
func (n *nodeState) addRank(rank int, ranks []rankState) {
	if len(n.ranks) > 2*n.ranksLeft+64 {
		n.ranks = slices.DeleteFunc(n.ranks, func(r int) bool { return ranks[r].over })
	}
	n.ranks = append(n.ranks, rank)
	n.ranksLeft++
}

// isGroupKilled reports whether a rank belongs to a spawned group that was killed.
func (t *rankTable) isGroupKilled(rank int) bool {
	return rank >= 0 && rank < len(t.ranks) && t.ranks[rank].groupKilled
}

// countStarted counts a rank that has started or could not be started. It returns true for the last one.
func (t *rankTable) countStarted() bool {
	t.unstarted--
	return t.unstarted == 0
}

// markProcesses records that processes of the job exist again on the node of a rank.
func (t *rankTable) markProcesses(rank int) {
	if rank >= 0 && rank < len(t.ranks) {
		t.nodes[t.ranks[rank].node].noProcesses = false
	}
}

// markRankOver records that a rank has ended. It returns false if there is no such rank, or if its end
// was already recorded.
func (t *rankTable) markRankOver(rank int) bool {
	if !t.isRunning(rank) {
		return false
	}
	t.ranks[rank].over = true
	t.RanksLeft--
	t.nodes[t.ranks[rank].node].ranksLeft--
	return true
}

// markNodeOver records that a node is lost, or that nothing of the job is left on it. It returns those ranks of the
// node that were not recorded as ended before.
func (t *rankTable) markNodeOver(node int) (ranks []int) {
	n := &t.nodes[node]
	if !n.finished {
		n.finished = true
		t.NodesLeft--
	}
	for _, rank := range n.ranks {
		if t.markRankOver(rank) {
			ranks = append(ranks, rank)
		}
	}
	n.ranks = nil
	return ranks
}

// RankOnNode returns the text that names a rank and its node: "rank 5 on node02".
func (t *rankTable) RankOnNode(rank int) string {
	node := t.nodeOf(rank)
	if node < 0 {
		return "a rank"
	}
	return fmt.Sprintf("rank %s on %s", t.RankNumber(rank), t.nodes[node].name)
}

// nodeOf returns the index of a rank's node, or -1 if there is no such rank.
func (t *rankTable) nodeOf(rank int) int {
	if rank < 0 || rank >= len(t.ranks) {
		return -1
	}
	return int(t.ranks[rank].node)
}

// RankNumber returns the number of a rank as text: "5", or "1:0" in a spawned group.
func (t *rankTable) RankNumber(rank int) string {
	group, number := GroupOf(t.groups, rank)
	return FormatRank(group, number)
}

// othersRun reports whether any rank except the given one is still running.
func (t *rankTable) othersRun(rank int) bool {
	return t.RanksLeft > 1 || t.RanksLeft == 1 && !t.isRunning(rank)
}

// isRunning reports whether a rank exists and has not ended.
func (t *rankTable) isRunning(rank int) bool {
	return rank >= 0 && rank < len(t.ranks) && !t.ranks[rank].over
}
