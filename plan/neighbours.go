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

// contiguous reports whether a job wants neighbours. Who was told where each rank goes has them.
func contiguous(req job.Request) bool { return req.Contiguous != "" && req.RankFile == nil }

// straighten is the problem of a contiguous job: it is never overbooked, though alone if it was to be,
// and the order of its nodes is that of the line, whatever the key.
func (p *problem) straighten() {
	if contiguous(p.req) {
		p.req.Exclusive = exclusive(p.req)
		p.req.Overbook, p.req.Forbid = false, true
		p.mode = sort.None
	}
}

// inLine lists the candidates of the line: those for applications, of regions which the job may enter,
// by ascending ID, whether they are free or listed or not.
func (p *problem) inLine() []int {
	var nodes []int
	for i := range p.candidates {
		if c := &p.candidates[i]; c.shut == "" && region.Applications(c.Flavors) {
			nodes = append(nodes, i)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(p.candidates[a].ID, p.candidates[b].ID) })
	return nodes
}

// windows are the lots of a contiguous job: of each lot the neighbours that hold it.
func (c *chooser) windows(lots []lot) ([]lot, *Error) {
	nodes := c.inLine()
	windows := make([]lot, len(lots))
	for k, l := range lots {
		rooms := c.rooms(nodes, l)
		need := line.Need{Shape: c.req.Apps[0].Shape}
		if len(c.req.Apps) > 1 {
			need.Shape, need.Holds = 0, func(from, to int) bool {
				return newPlacement(c.req, c.candidates, c.of, nodes[from:to]).place([]lot{{turns: nodes[from:to], inLine: true}}, c.usable, c.mode) == nil
			}
		}
		w, ok := line.Window{}, false
		for _, need.Ranks = range sizes(c.req, l) {
			if w, ok = line.Find(rooms, need, line.Mode(c.req.Contiguous)); ok {
				break
			}
		}
		if !ok {
			return nil, c.noRun(nodes, rooms, need)
		}
		windows[k] = lot{set: l.set, turns: nodes[w.From:w.To], ranks: l.ranks, inLine: true}
	}
	return windows, nil
}

// sizes are the numbers of ranks that would do on a lot, the largest first; 0: as many as there are
// slots.
func sizes(req job.Request, l lot) []int {
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

// rooms is how many ranks each node of the line has room for, if it is of a lot. Of several sections
// that with most room counts: whether all of them fit, the placement tells.
func (c *chooser) rooms(nodes []int, l lot) []int {
	s := newPlacement(c.req, c.candidates, c.of, l.turns)
	room := make([]int, len(c.candidates))
	for a, app := range c.req.Apps {
		s.confine(app.NUMA)
		area := s.eligible(app, c.usable[a])
		for _, i := range area.candidates {
			room[i] = max(room[i], area.room[i])
		}
	}
	rooms := make([]int, len(nodes))
	for k, i := range nodes {
		rooms[k] = room[i]
	}
	return rooms
}

// noRun is the refusal when neighbours alone would not do.
func (c *chooser) noRun(nodes, rooms []int, need line.Need) *Error {
	w, most := line.Longest(rooms, need)
	var names []string
	for _, i := range nodes[w.From:w.To] {
		names = append(names, c.candidates[i].Name)
	}
	longest := "no node of the line has room"
	if most > 0 {
		longest = fmt.Sprintf("longest: %d on %s; %d free in all", most, hostlist.Brief(names), sum(rooms))
	}
	failed := &Error{Code: NotContiguous, Wanted: need.Ranks, Free: most, Way: "without --contiguous they fit",
		Text: fmt.Sprintf("no run of neighbours holds %s (%s)", text.Count(need.Ranks, "rank"), longest)}
	if jobs, movable := c.inTheWay(nodes); jobs != "" {
		failed.Text += "; in the way: " + jobs
		if movable != "" {
			failed.Way += fmt.Sprintf("; its user or an administrator can move a job: mpiexec --migrate %s", movable)
		}
	}
	return failed
}

// mostInTheWay is how many jobs a refusal names.
const mostInTheWay = 8

// inTheWay names the jobs that have most of the nodes of a line, and tells of each whether it can be moved (survive.md SV-18);
// movable is the first that can.
func (c *chooser) inTheWay(nodes []int) (jobs string, movable job.ID) {
	type holder struct {
		id      job.ID
		user    string
		movable bool
	}
	var parts []string
	held := slices.DeleteFunc(slices.Clone(nodes), func(i int) bool { return c.candidates[i].WhoJob == "" })
	groups := text.Groups(held, func(i int) (holder, string) {
		n := &c.candidates[i]
		return holder{n.WhoJob, n.Who, n.Movable}, n.Name
	})
	for _, g := range groups[:min(len(groups), mostInTheWay)] {
		can := "cannot be moved"
		if g.Common.movable {
			can, movable = "can be moved", cmp.Or(movable, g.Common.id)
		}
		parts = append(parts, fmt.Sprintf("job %s of %s on %s (%s)", g.Common.id, g.Common.user, hostlist.Brief(g.Names), can))
	}
	if more := len(groups) - len(parts); more > 0 {
		parts = append(parts, text.Count(more, "other"))
	}
	return strings.Join(parts, ", "), movable
}
