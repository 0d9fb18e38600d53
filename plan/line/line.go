/*
Package line finds neighbours for a job that wants them (which-hosts.md 11).

	room    4 4 . 4 4 4 . 2 4      the line: nodes by ascending ID; . is none
	run     --- ----- ---          a longest stretch with room
	window     ----                the shortest stretch of a run that holds the job

It knows positions and rooms alone, no nodes: all of it is pure, and one pass over the line.
*/
package line

// A Mode says which of the runs that hold a job is chosen.
type Mode string

// The modes.
const (
	First Mode = "first" // that of the lowest position
	Best  Mode = "best"  // that with the smallest window; of equal ones that of which least is left over
)

// Modes are the words for it, in the order of messages.
var Modes = []string{string(First), string(Best)}

// A Requirement is what is looked for.
type Requirement struct {
	Ranks int // 0: as many as a run has room for
	Shape int // ranks on each node but the last; 0: as many as there is room for

	// HoldsJob reports whether a stretch, its end excluded, holds the whole job, where room alone does
	// not tell; nil: it does. A longer stretch holds what a shorter one does.
	HoldsJob func(from, to int) bool
}

// minCapacity is the room with which a node is one of a run.
func (n Requirement) minCapacity() int {
	switch {
	case n.Shape == 0:
		return 1
	case n.Ranks == 0:
		return n.Shape
	}
	return min(n.Shape, n.Ranks)
}

// ranksOn is how many ranks a node of a room gets at most.
func (n Requirement) ranksOn(room int) int {
	if n.Shape > 0 {
		return min(room, n.Shape)
	}
	return room
}

// A Window is a stretch of positions, its end excluded.
type Window struct {
	From, To    int
	UnusedNodes int // nodes of its run that it leaves over
}

// precedes reports whether a window comes before another in a mode.
func (w Window) precedes(than Window) bool {
	if a, b := w.To-w.From, than.To-than.From; a != b {
		return a < b
	}
	return w.UnusedNodes < than.UnusedNodes
}

// FindWindow chooses the window for a job; ok is false if no run holds it.
func FindWindow(rooms []int, need Requirement, mode Mode) (chosen Window, ok bool) {
	if need.Ranks == 0 {
		longest, room := LargestRun(rooms, need)
		return longest, room > 0
	}
	for from, to := range runs(rooms, need.minCapacity()) {
		w, holds := need.shortestWindow(rooms, from, to)
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

// LargestRun is the run with most room, of equal ones the first, and how many ranks it has room for.
func LargestRun(rooms []int, need Requirement) (longest Window, room int) {
	for from, to := range runs(rooms, need.minCapacity()) {
		sum := 0
		for _, r := range rooms[from:to] {
			sum += need.ranksOn(r)
		}
		if sum > room {
			longest, room = Window{From: from, To: to}, sum
		}
	}
	return longest, room
}

// runs yields the longest stretches of nodes with so much room.
func runs(rooms []int, least int) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		from := 0
		for i := 0; i <= len(rooms); i++ {
			if i < len(rooms) && rooms[i] >= least {
				continue
			}
			if i > from && !yield(from, i) {
				return
			}
			from = i + 1
		}
	}
}

// shortestWindow is the shortest stretch of a run that holds the job; of equal ones the first.
func (n Requirement) shortestWindow(rooms []int, from, to int) (shortest Window, ok bool) {
	if n.Shape > 0 && n.HoldsJob == nil {
		return n.shapedWindow(rooms, from, to)
	}
	sum, end := 0, from
	for start := from; start < to; start++ {
		for end < to && (sum < n.Ranks || !n.holdsJob(start, end)) {
			sum += rooms[end]
			end++
		}
		if sum < n.Ranks || !n.holdsJob(start, end) {
			break
		}
		if !ok || end-start < shortest.To-shortest.From {
			shortest, ok = Window{From: start, To: end}, true
		}
		sum -= rooms[start]
	}
	shortest.UnusedNodes = to - from - (shortest.To - shortest.From)
	return shortest, ok
}

func (n Requirement) holdsJob(from, to int) bool {
	return n.HoldsJob == nil || to > from && n.HoldsJob(from, to)
}

// shapedWindow is the window of a shape: each node of the run holds it, so that the first do. The node
// behind the run may have room for the remainder alone.
func (n Requirement) shapedWindow(rooms []int, from, to int) (w Window, ok bool) {
	full, rest := n.Ranks/n.Shape, n.Ranks%n.Shape
	end := from + full
	if rest > 0 {
		end++
	}
	behind := end == to+1 && to < len(rooms) && rooms[to] >= rest
	if end > to && !behind {
		return w, false
	}
	return Window{From: from, To: end, UnusedNodes: max(0, to-end)}, true
}
