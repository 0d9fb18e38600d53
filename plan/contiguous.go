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

// This file places a job on contiguous nodes (which-hosts.md 11). Package line finds them by the
// capacities of the nodes.

// isContiguous reports whether a job needs contiguous nodes. With a rank file it does not, because the
// file names the nodes.
func isContiguous(req job.Request) bool { return req.Contiguous != "" && req.FixedPlacements == nil }

// makeContiguous changes the problem for a job that needs contiguous nodes (neighbors). Ranks of such a job never
// share CPUs. If an option requests overbooking, the job instead gets nodes that no other job uses. The nodes are
// ordered by ID and not by the sort key.
func (p *problem) makeContiguous() {
	if isContiguous(p.req) {
		p.req.Exclusive = isExclusive(p.req)
		p.req.Overbook, p.req.NoOversubscribe = false, true
		p.sortMode = sort.None
	}
}

// lineCandidates returns the line: the nodes among which contiguous nodes are searched, in ascending order of ID. The
// line contains all nodes that may run ranks and whose region the job may use, even nodes that are busy or not in the
// host list.
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

// contiguousWindows reduces each placement group to contiguous nodes that can run its ranks.
func (c *nodeChooser) contiguousWindows(groups []placementGroup) ([]placementGroup, *Error) {
	nodes := c.lineCandidates()
	windows := make([]placementGroup, len(groups))
	for k, l := range groups {
		capacities := c.lineCapacities(nodes, l)
		need := line.Requirement{Shape: c.req.Apps[0].ExactPerNode}
		if len(c.req.Apps) > 1 {
			need.Shape, need.HoldsJob = 0, func(from, to int) bool {
				return newPlacement(c.req, c.candidates, c.candidateOf, nodes[from:to]).placeGroups([]placementGroup{{entries: nodes[from:to], inFillOrder: true}}, c.usable, c.sortMode) == nil
			}
		}
		w, ok := line.Window{}, false
		for _, need.Ranks = range rankCounts(c.req, l) {
			if w, ok = line.FindWindow(capacities, need, line.Mode(c.req.Contiguous)); ok {
				break
			}
		}
		if !ok {
			return nil, c.refuseNotContiguous(nodes, capacities, need)
		}
		windows[k] = placementGroup{nodeSet: l.nodeSet, entries: nodes[w.From:w.To], ranks: l.ranks, inFillOrder: true}
	}
	return windows, nil
}

// rankCounts returns the acceptable numbers of ranks for a placement group, the largest first. 0 means one
// rank for each slot.
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

// lineCapacities returns how many ranks each of the given nodes can run. For nodes outside the placement group, this is
// 0. If the job has several apps, the number for a node is the largest number of ranks of a single app. Whether all
// apps fit together is not checked.
func (c *nodeChooser) lineCapacities(nodes []int, l placementGroup) []int {
	s := newPlacement(c.req, c.candidates, c.candidateOf, l.entries)
	byCandidate := make([]int, len(c.candidates))
	for a, app := range c.req.Apps {
		s.confineApp(app.NUMA)
		area := s.eligibleFor(app, c.usable[a])
		for _, i := range area.candidates {
			byCandidate[i] = max(byCandidate[i], area.capacity[i])
		}
	}
	capacities := make([]int, len(nodes))
	for k, i := range nodes {
		capacities[k] = byCandidate[i]
	}
	return capacities
}

// refuseNotContiguous returns the error for a job that fits only on nodes that are not contiguous.
func (c *nodeChooser) refuseNotContiguous(nodes, capacities []int, required line.Requirement) *Error {
	w, most := line.LargestRun(capacities, required)
	var names []string
	for _, i := range nodes[w.From:w.To] {
		names = append(names, c.candidates[i].Name)
	}
	room := "no node has room for a rank"
	if most > 0 {
		room = fmt.Sprintf("contiguous nodes have room for at most %s (%s), and all nodes together for %d", text.Count(most, "rank"), hostlist.FoldBrief(names), sum(capacities))
	}
	failed := &Error{Code: CodeNotContiguous, WantedRanks: required.Ranks, FreeRanks: most, Remedy: "leave out --contiguous, so that mpiexec may use nodes that are not contiguous",
		Text: fmt.Sprintf("there are no contiguous nodes for %s: %s", text.Count(required.Ranks, "rank"), room)}
	if jobs, movable := c.blockingJobs(nodes); jobs != "" {
		failed.Text += "; other jobs use nodes of the cluster: " + jobs
		if movable != "" {
			failed.Remedy += fmt.Sprintf("; or ask the user of job %s, or an administrator, to move it with: mpiexec --migrate %s", movable, movable)
		}
	}
	return failed
}

// maxBlockingJobs is the maximum number of jobs that the error of refuseNotContiguous names.
const maxBlockingJobs = 8

// blockingJobs returns a phrase that names jobs that use nodes of the line, and says for each whether it can be moved
// (survive.md SV-18). movable is the first job that can be moved, or "".
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
		can := "cannot"
		if g.Common.movable {
			can, movable = "can", cmp.Or(movable, g.Common.id)
		}
		parts = append(parts, fmt.Sprintf("job %s of %s on %s (mpiexec %s move it)", g.Common.id, g.Common.user, hostlist.FoldBrief(g.Names), can))
	}
	if more := len(groups) - len(parts); more > 0 {
		parts = append(parts, text.Count(more, "other"))
	}
	return strings.Join(parts, ", "), movable
}
