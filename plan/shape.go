package plan

import (
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// A shapePlacement lists the nodes of an app with --shape and the number of ranks on each (which-hosts.md 9.1). For
// example, with -n 10 --shape 4:
//
//	node        a  b  c
//	capacity    8  3  8
//	ranks       4  2  4
//
// Nodes whose capacity is below 4 are skipped at first. The last 2 ranks go to a node after the last full one (c) or, as
// here, to the first node that was skipped (b).
type shapePlacement struct {
	nodes    []int // candidates in the order of their ranks
	ranks    []int // number of ranks, by index in nodes
	unplaced int   // ranks that no node can take
}

// placeInShape chooses nodes for n ranks. shape is the number of ranks on each node but the last. order lists the
// candidates in the order in which they are used. capacity is the capacity of each candidate.
func placeInShape(order []int, capacity []int, n, shape int) (f shapePlacement) {
	passed := slices.Clone(order)
	full, behind := n/shape, 0
	for k, i := range order {
		if len(f.nodes) < full && capacity[i] >= shape {
			f.addNode(i, shape)
			passed[k] = -1
			behind = k + 1
		}
	}
	if f.unplaced = n - len(f.nodes)*shape; f.unplaced == 0 || f.unplaced >= shape {
		return f
	}
	for _, i := range slices.Concat(passed[behind:], passed[:behind]) {
		if i >= 0 && capacity[i] >= f.unplaced {
			f.addNode(i, f.unplaced)
			f.unplaced = 0
			break
		}
	}
	return f
}

func (f *shapePlacement) addNode(candidate, ranks int) {
	f.nodes, f.ranks = append(f.nodes, candidate), append(f.ranks, ranks)
}

// ranksInShape returns how many ranks of an app with --shape may be placed on a node with the given capacity.
func ranksInShape(app job.App, capacity int) int {
	if app.ExactPerNode > 0 {
		return min(capacity, app.ExactPerNode)
	}
	return capacity
}

// placeShaped places n ranks of app a as the app's option --shape requires.
func (s *placement) placeShaped(area *eligibleNodes, a, n int) *Error {
	if failed := s.refuseFewGPUs(area, n); failed != nil {
		return failed
	}
	order := s.remainingCandidates(area)
	f := placeInShape(order, area.capacity, n, area.app.ExactPerNode)
	if f.unplaced > 0 && s.mayShareCPUs(area, n) {
		s.sharesCPUs = true
		if f = placeInShape(order, s.rankBounds(area, n), n, area.app.ExactPerNode); f.unplaced > 0 {
			return area.refuseShape(CodeLimits, f, n)
		}
	}
	if f.unplaced > 0 {
		return area.refuseShape(CodeNotEnough, f, n)
	}
	quota := make([]int, len(s.candidates))
	for k, i := range f.nodes {
		quota[i] = f.ranks[k]
	}
	all := s.entries
	s.entries, s.nextEntry = f.nodes, 0
	s.placeByQuota(area, a, n, quota)
	s.entries = all
	last := s.assigned[len(s.assigned)-1].candidate
	if s.nextEntry = slices.Index(all, last); s.req.RoundRobin {
		s.nextEntry = (s.nextEntry + 1) % len(all)
	}
	return nil
}

// remainingCandidates returns the candidates of area in the order in which they are used, starting with the candidate
// at which placement continues.
func (s *placement) remainingCandidates(area *eligibleNodes) []int {
	may := make([]bool, len(s.candidates))
	for _, i := range area.candidates {
		may[i] = true
	}
	order := distinctCandidates(slices.Concat(s.entries[s.nextEntry:], s.entries[:s.nextEntry]), len(s.candidates))
	return slices.DeleteFunc(order, func(i int) bool { return !may[i] })
}

// shapeCapacity returns how many ranks fit with --shape. A node with room for fewer ranks than --shape says does not
// count.
func (a *eligibleNodes) shapeCapacity() int {
	capacity := 0
	for _, i := range a.candidates {
		if a.capacity[i] >= a.app.ExactPerNode {
			capacity += a.app.ExactPerNode
		}
	}
	return capacity
}

// refuseShape returns the error saying that some ranks do not fit because of --shape.
func (a *eligibleNodes) refuseShape(code string, f shapePlacement, n int) *Error {
	placed := 0
	for _, ranks := range f.ranks {
		placed += ranks
	}
	return &Error{Code: code, WantedRanks: n, FreeRanks: placed, Remedy: "start fewer ranks, add hosts, or leave out --shape",
		Text: fmt.Sprintf("%s cannot be placed with exactly %d on each host: %s (%s) have room for %d, and %d are left over", text.Count(n, "rank"), a.app.ExactPerNode,
			text.Count(len(a.candidates), "node"), hostlist.FoldBrief(a.names), placed, f.unplaced)}
}
