package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/plan/line"
	"remshell/plan/region"
	"remshell/sort"
	"remshell/text"
)

// This file places a job on neighbouring nodes (which-hosts.md 11): package line finds them, by the
// rooms that nodes have for the job.

// isContiguous reports whether a job wants neighbours. Who was told where each rank goes has them.
func isContiguous(req job.Request) bool { return req.Contiguous != "" && req.FixedPlacements == nil }

// makeContiguous is the problem of a contiguous job: it is never overbooked, though alone if it was to be,
// and the order of its nodes is that of the line, whatever the key.
func (p *problem) makeContiguous() {
	if isContiguous(p.req) {
		p.req.Exclusive = isExclusive(p.req)
		p.req.Overbook, p.req.NoOversubscribe = false, true
		p.sortMode = sort.None
	}
}

// lineCandidates lists the candidates of the line: those for applications, of regions which the job may enter,
// by ascending ID, whether they are free or listed or not.
func (p *problem) lineCandidates() []int {
	var nodes []int
	for i := range p.candidates {
		if c := &p.candidates[i]; c.closedReason == "" && region.RunsRanks(c.Flavors) {
			nodes = append(nodes, i)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(p.candidates[a].ID, p.candidates[b].ID) })
	return nodes
}

// contiguousWindows are the lots of a contiguous job: of each lot the neighbours that hold it.
func (c *nodeChooser) contiguousWindows(lots []placementGroup) ([]placementGroup, *Error) {
	nodes := c.lineCandidates()
	windows := make([]placementGroup, len(lots))
	for k, l := range lots {
		rooms := c.lineCapacities(nodes, l)
		need := line.Requirement{Shape: c.req.Apps[0].ExactPerNode}
		if len(c.req.Apps) > 1 {
			need.Shape, need.HoldsJob = 0, func(from, to int) bool {
				return newPlacement(c.req, c.candidates, c.candidateOf, nodes[from:to]).placeGroups([]placementGroup{{entries: nodes[from:to], inFillOrder: true}}, c.usable, c.sortMode) == nil
			}
		}
		w, ok := line.Window{}, false
		for _, need.Ranks = range rankCounts(c.req, l) {
			if w, ok = line.FindWindow(rooms, need, line.Mode(c.req.Contiguous)); ok {
				break
			}
		}
		if !ok {
			return nil, c.refuseNotContiguous(nodes, rooms, need)
		}
		windows[k] = placementGroup{nodeSet: l.nodeSet, entries: nodes[w.From:w.To], ranks: l.ranks, inFillOrder: true}
	}
	return windows, nil
}

// rankCounts are the numbers of ranks that would do on a lot, the largest first; 0: as many as there are
// slots.
func rankCounts(req job.Request, l placementGroup) []int {
	if l.ranks > 0 {
		return []int{l.ranks}
	}
	if app := req.Apps[0]; len(req.Apps) == 1 && app.N == 0 && app.Soft != nil {
		return app.Soft
	}
	ranks := 0
	for _, app := range req.Apps {
		ranks += app.N
	}
	return []int{ranks}
}

// lineCapacities is how many ranks each node of the line has room for, if it is of a lot. Of several sections
// that with most room counts: whether all of them fit, the placement tells.
func (c *nodeChooser) lineCapacities(nodes []int, l placementGroup) []int {
	s := newPlacement(c.req, c.candidates, c.candidateOf, l.entries)
	room := make([]int, len(c.candidates))
	for a, app := range c.req.Apps {
		s.confineApp(app.NUMA)
		area := s.eligibleFor(app, c.usable[a])
		for _, i := range area.candidates {
			room[i] = max(room[i], area.capacity[i])
		}
	}
	rooms := make([]int, len(nodes))
	for k, i := range nodes {
		rooms[k] = room[i]
	}
	return rooms
}

// refuseNotContiguous is the refusal when neighbours alone would not do.
func (c *nodeChooser) refuseNotContiguous(nodes, rooms []int, need line.Requirement) *Error {
	w, most := line.LargestRun(rooms, need)
	var names []string
	for _, i := range nodes[w.From:w.To] {
		names = append(names, c.candidates[i].Name)
	}
	longest := "no node of the line has room"
	if most > 0 {
		longest = fmt.Sprintf("longest: %d on %s; %d free in all", most, hostlist.FoldBrief(names), sum(rooms))
	}
	failed := &Error{Code: CodeNotContiguous, WantedRanks: need.Ranks, FreeRanks: most, Remedy: "without --contiguous they fit",
		Text: fmt.Sprintf("no run of neighbours holds %s (%s)", text.Count(need.Ranks, "rank"), longest)}
	if jobs, movable := c.blockingJobs(nodes); jobs != "" {
		failed.Text += "; in the way: " + jobs
		if movable != "" {
			failed.Remedy += fmt.Sprintf("; its user or an administrator can move a job: mpiexec --migrate %s", movable)
		}
	}
	return failed
}

// maxBlockingJobs is how many jobs a refusal names.
const maxBlockingJobs = 8

// blockingJobs names the jobs that have most of the nodes of a line, and tells of each whether it can be moved (survive.md SV-18);
// movable is the first that can.
func (c *nodeChooser) blockingJobs(nodes []int) (jobs string, movable job.ID) {
	type holder struct {
		id      job.ID
		user    string
		movable bool
	}
	var parts []string
	held := slices.DeleteFunc(slices.Clone(nodes), func(i int) bool { return c.candidates[i].TopJob == "" })
	groups := text.Groups(held, func(i int) (holder, string) {
		n := &c.candidates[i]
		return holder{n.TopJob, n.TopUser, n.Movable}, n.Name
	})
	for _, g := range groups[:min(len(groups), maxBlockingJobs)] {
		can := "cannot be moved"
		if g.Common.movable {
			can, movable = "can be moved", cmp.Or(movable, g.Common.id)
		}
		parts = append(parts, fmt.Sprintf("job %s of %s on %s (%s)", g.Common.id, g.Common.user, hostlist.FoldBrief(g.Names), can))
	}
	if more := len(groups) - len(parts); more > 0 {
		parts = append(parts, text.Count(more, "other"))
	}
	return strings.Join(parts, ", "), movable
}
