/*
Package line finds contiguous nodes for a job (which-hosts.md 11).

	capacity  4 4 . 4 4 4 . 2 4    the line: nodes by ascending ID; . means none
	run       ---   -----   ---    adjacent nodes with capacity, as many as possible
	window          ---            the shortest part of a run in which the job fits

The package uses only positions and capacities. All functions are pure, and read the line once.
*/
package line

// A Mode says which run of contiguous nodes is chosen if several runs are large enough for a job.
type Mode string

// These are the ways to choose among several runs of contiguous nodes.
const (
	First Mode = "first" // the run with the lowest position
	Best  Mode = "best"  // the run with the smallest window; of equal ones the one with the fewest unused nodes
)

// Modes lists the names of the modes, in the order in which messages list them.
var Modes = []string{string(First), string(Best)}

// A Requirement describes the contiguous nodes that a job needs.
type Requirement struct {
	Ranks int // 0 means as many as fit in a run
	Shape int // ranks on each node but the last; 0 means as many as fit

	// HoldsJob reports whether the nodes start to end-1 can run the whole job, in addition to having enough
	// capacity. If it returns true for some nodes, it must also return true for more nodes that include them.
	// If it is nil, only the capacity decides.
	HoldsJob func(start, end int) bool
}

// minCapacity returns the minimum capacity of each node in a run.
func (n Requirement) minCapacity() int {
	switch {
	case n.Shape == 0:
		return 1
	case n.Ranks == 0:
		return n.Shape
	}
	return min(n.Shape, n.Ranks)
}

// ranksOn returns the maximum number of the job's ranks that may run on a node with the given capacity.
func (n Requirement) ranksOn(capacity int) int {
	if n.Shape > 0 {
		return min(capacity, n.Shape)
	}
	return capacity
}

// A Window is a range [From, To) of positions in the line of nodes.
type Window struct {
	From, To    int
	UnusedNodes int // nodes of its run outside the window
}

// precedes reports whether w is better than other in mode Best.
func (w Window) precedes(other Window) bool {
	if a, b := w.To-w.From, other.To-other.From; a != b {
		return a < b
	}
	return w.UnusedNodes < other.UnusedNodes
}

// FindWindow returns the window of contiguous nodes for a job. ok is false if no run of nodes is large enough.
func FindWindow(capacities []int, need Requirement, mode Mode) (chosen Window, ok bool) {
	if need.Ranks == 0 {
		longest, capacity := LargestRun(capacities, need)
		return longest, capacity > 0
	}
	for from, to := range runs(capacities, need.minCapacity()) {
		w, holds := need.shortestWindow(capacities, from, to)
		if !holds || ok && !w.precedes(chosen) {
			continue
		}
		chosen, ok = w, true
		if mode != Best {
			break
		}
	}
	return chosen, ok
}

// LargestRun returns the run of contiguous nodes that has room for the most ranks. capacity is their number. If several
// runs have room for equally many ranks, it returns the first.
func LargestRun(capacities []int, need Requirement) (longest Window, capacity int) {
	for from, to := range runs(capacities, need.minCapacity()) {
		sum := 0
		for _, r := range capacities[from:to] {
			sum += need.ranksOn(r)
		}
		if sum > capacity {
			longest, capacity = Window{From: from, To: to}, sum
		}
	}
	return longest, capacity
}

// runs iterates over the runs of adjacent nodes whose capacity is at least minimum. Each run is as long as
// possible.
func runs(capacities []int, minimum int) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		from := 0
		for i := 0; i <= len(capacities); i++ {
			if i < len(capacities) && capacities[i] >= minimum {
				continue
			}
			if i > from && !yield(from, i) {
				return
			}
			from = i + 1
		}
	}
}

// shortestWindow returns, within a run of nodes, the shortest window that has room for the job. If several windows are
// equally short, it returns the first.
func (n Requirement) shortestWindow(capacities []int, runStart, runEnd int) (shortest Window, ok bool) {
	if n.Shape > 0 && n.HoldsJob == nil {
		return n.shapedWindow(capacities, runStart, runEnd)
	}
	sum, end := 0, runStart
	for start := runStart; start < runEnd; start++ {
		for end < runEnd && (sum < n.Ranks || !n.holdsJob(start, end)) {
			sum += capacities[end]
			end++
		}
		if sum < n.Ranks || !n.holdsJob(start, end) {
			break
		}
		if !ok || end-start < shortest.To-shortest.From {
			shortest, ok = Window{From: start, To: end}, true
		}
		sum -= capacities[start]
	}
	shortest.UnusedNodes = runEnd - runStart - (shortest.To - shortest.From)
	return shortest, ok
}

func (n Requirement) holdsJob(start, end int) bool {
	return n.HoldsJob == nil || end > start && n.HoldsJob(start, end)
}

// shapedWindow returns the window for a job with --shape, which sets the number of ranks on each node but the last.
// Each node of the run has room for that many ranks. The window starts with the first node of the run. The node after
// the run may be used for the remaining ranks.
func (n Requirement) shapedWindow(capacities []int, runStart, runEnd int) (w Window, ok bool) {
	full, rest := n.Ranks/n.Shape, n.Ranks%n.Shape
	end := runStart + full
	if rest > 0 {
		end++
	}
	behind := rest > 0 && end == runEnd+1 && runEnd < len(capacities) && capacities[runEnd] >= rest
	if end > runEnd && !behind {
		return w, false
	}
	return Window{From: runStart, To: end, UnusedNodes: max(0, runEnd-end)}, true
}
