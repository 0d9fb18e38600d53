package plan

import (
	"slices"
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
)

// This file chooses which of the nodes that may be used are used (which-hosts.md):
//
//	sets = build(candidates)
//	waiting = delay > waited, and an idle cluster would hold the job in one set without sharing CPUs
//	passes  = normal, then, if CPUs may be shared and not waiting, overbooked
//	in each pass:
//	    a set by the policy fits            -> that one
//	    waiting                             -> next pass
//	    SPANEVENLY, normal pass, ONEOF or FIRSTOF, one executable, an even span exists -> its parts
//	    no request, or optional             -> all candidates, if they fit
//	nothing: refused

// A lot is nodes that were chosen together, and the ranks that go there.
type lot struct {
	set   string // the node set; empty: none
	turns []int  // in list order
	ranks int    // 0: all of the job

	inLine bool // the turns are in the order in which they are filled
}

// A chooser chooses for one problem.
type chooser struct {
	problem
	usable [][]bool
	turns  []int // that some part of the job may use
	nodes  []int // the candidates of these, each once
	sets   *nodeset.Chooser
}

// choose finds nodes that hold the job, and places its ranks there.
func (p problem) choose(found *solution) *Error {
	c := &chooser{problem: p, usable: found.usable}
	c.turns = slices.DeleteFunc(slices.Clone(p.turns), func(turn int) bool {
		return !slices.ContainsFunc(found.usable, func(may []bool) bool { return may[turn] })
	})
	if !p.choosy() || len(c.turns) == 0 {
		return c.all(found)
	}
	c.survey()
	found.sets = c.sets
	waiting := c.waits()
	if c.passes(found, waiting) {
		return nil
	}
	if failed := c.all(found); failed != nil {
		return failed
	}
	found.placement = nil
	return c.refuseSets(waiting)
}

// all tries all nodes; why neighbours do not hold the job is told if others do.
func (c *chooser) all(found *solution) *Error {
	lots := []lot{{turns: c.turns}}
	if !contiguous(c.req) {
		return c.try(found, lots, false)
	}
	if failed := c.fill(new(solution), lots, false); failed != nil {
		return failed
	}
	return c.try(found, lots, false)
}

// choosy reports whether something was said of which nodes are to be chosen.
func (p problem) choosy() bool {
	return p.req.RankFile == nil && (p.req.Set.Policy != "" || p.req.Balance)
}

// passes tries what may be chosen, first without sharing CPUs, then, if that is welcome, with it.
func (c *chooser) passes(found *solution, waiting bool) bool {
	if lots := c.bySet(waiting); lots != nil && c.try(found, lots, true) == nil {
		return true
	}
	if waiting {
		return false
	}
	if lots := c.span(); lots != nil && c.try(found, lots, true) == nil {
		return true
	}
	if c.mayLeave() {
		found.left = c.req.Set.Policy != ""
		if lots := []lot{c.lot("", c.balanced(c.sets.All(), c.sets.Ranks), 0)}; c.try(found, lots, true) == nil {
			return true
		}
	}
	found.left = false
	if !c.mayShareCPUs() {
		return false
	}
	for _, lots := range c.bySetShared() {
		if c.try(found, lots, false) == nil {
			return true
		}
	}
	found.left = c.mayLeave() && c.req.Set.Policy != ""
	return c.mayLeave() && c.try(found, []lot{{turns: c.turns}}, false) == nil
}

// mayLeave reports whether the job may use nodes that are in no set.
func (c *chooser) mayLeave() bool { return c.req.Set.Policy == "" || c.req.Set.Optional }

// mayShareCPUs reports whether ranks may share CPUs, if need be.
func (c *chooser) mayShareCPUs() bool {
	return !c.req.Forbid && (c.req.Overbook || c.req.Crowd || c.req.Home)
}

// survey gathers what there is to choose from.
func (c *chooser) survey() {
	c.nodes = distinct(c.turns, len(c.candidates))
	empty := newPlacement(c.req, c.candidates, c.of, c.turns)
	rooms := make([]int, len(c.candidates)) // of the section that finds most
	ranks := 0
	counted := true
	for a, app := range c.req.Apps {
		empty.confine(app.NUMA)
		for i, room := range empty.eligible(app, c.usable[a]).room {
			rooms[i] = max(rooms[i], inShape(app, room))
		}
		ranks += app.N
		counted = counted && app.N > 0
	}
	if !counted {
		ranks = 0
	}
	nodes := make([]nodeset.Node, len(c.nodes))
	welcome := c.welcome()
	for k, i := range c.nodes {
		n := &c.candidates[i]
		nodes[k] = nodeset.Node{Value: n.Attribute(c.req.Set.Attribute), Global: n.Global, Room: rooms[i], Size: n.Size(),
			Speed: n.Attribute(nodeset.ProcSpeed).Number, Affinity: welcome(&n.Node)}
	}
	holds := c.holds
	if counted && len(c.req.Apps) == 1 && empty.layer == nil && c.req.Apps[0].Shape == 0 && !contiguous(c.req) {
		holds = nil // the sum of the rooms decides
	}
	c.sets = nodeset.NewChooser(c.req.Set, nodes, ranks, holds)
}

// welcome tells the affinity of a node: by the first entry of the cluster's that is for it.
func (c *chooser) welcome() func(*job.Node) int {
	if c.req.Set.Priority != nodeset.Affine {
		return func(*job.Node) int { return 0 }
	}
	named := make([]map[string]bool, len(c.req.Affinity))
	for k, entry := range c.req.Affinity {
		named[k] = make(map[string]bool)
		for _, name := range entry.Nodes {
			named[k][strings.ToLower(name)] = true
		}
	}
	return func(n *job.Node) int {
		for k, entry := range c.req.Affinity {
			if entry.Nodes == nil && slices.Contains(n.Features, entry.Feature) || named[k][strings.ToLower(n.Name)] {
				return entry.Value
			}
		}
		return 0
	}
}

// holds runs order and place on some nodes alone, for so many ranks or, where it is 0, all of the job.
func (c *chooser) holds(members []int, ranks int) bool {
	if len(members) == 0 {
		return false
	}
	if ranks == c.sets.Ranks {
		ranks = 0
	}
	return c.try(new(solution), []lot{c.lot("", members, ranks)}, true) == nil
}

// lot is a lot of some of the nodes.
func (c *chooser) lot(set string, members []int, ranks int) lot {
	in := make([]bool, len(c.candidates))
	for _, k := range members {
		in[c.nodes[k]] = true
	}
	return lot{set: set, turns: slices.DeleteFunc(slices.Clone(c.turns), func(turn int) bool { return !in[turn] }), ranks: ranks}
}

// balanced are those of some members that differ least in speed, if that was asked for.
func (c *chooser) balanced(members []int, ranks int) []int {
	if !c.req.Balance || contiguous(c.req) {
		return members
	}
	return c.sets.Balance(members, ranks)
}

// bySet is what the policy chooses where no CPU is shared; nil: nothing fits. Who waits for the best
// set takes no other.
func (c *chooser) bySet(waiting bool) []lot {
	s := c.req.Set
	switch {
	case s.Policy == "":
		return nil
	case s.Policy == nodeset.AnyOf:
		members := c.sets.Union()
		if !c.sets.Hold(members, c.sets.Ranks) {
			return nil
		}
		return []lot{c.lot(c.sets.Name(), c.balanced(members, c.sets.Ranks), 0)}
	case waiting && s.Plus.Delay:
		set, members := c.sets.Take(c.best())
		if set < 0 {
			return nil
		}
		return []lot{c.lot(c.sets.Sets[set].Name, c.balanced(members, c.sets.Ranks), 0)}
	}
	set, members := c.sets.One()
	if set < 0 {
		return nil
	}
	return []lot{c.lot(c.sets.Sets[set].Name, c.balanced(members, c.sets.Ranks), 0)}
}

// bySetShared are what the policy would choose where CPUs are shared, in the order in which it is tried.
func (c *chooser) bySetShared() (choices [][]lot) {
	switch c.req.Set.Policy {
	case "":
	case nodeset.AnyOf:
		choices = append(choices, []lot{c.lot(c.sets.Name(), c.sets.Union(), 0)})
	default:
		for _, set := range c.sets.Largest() {
			choices = append(choices, []lot{c.lot(c.sets.Sets[set].Name, c.sets.Sets[set].Members, 0)})
		}
	}
	return choices
}

// span is an even span over several sets, if that was asked for and there is one.
func (c *chooser) span() (lots []lot) {
	s := c.req.Set
	if !s.Plus.SpanEvenly || s.Policy == nodeset.AnyOf || s.Policy == "" || len(c.req.Apps) > 1 || contiguous(c.req) {
		return nil
	}
	for _, part := range c.sets.Span() {
		lots = append(lots, c.lot(c.sets.Sets[part.Set].Name, c.balanced(part.Members, part.Ranks), part.Ranks))
	}
	return lots
}

// waits reports whether the job still insists on one set: an idle cluster would hold it there.
func (c *chooser) waits() bool {
	if c.req.Set.Policy == "" || c.req.Set.Delay <= c.waited {
		return false
	}
	return c.deserted().bySet(false) != nil
}

// best is the name of the set that would be chosen on an idle cluster.
func (c *chooser) best() string {
	if lots := c.deserted().bySet(false); lots != nil {
		return lots[0].set
	}
	return ""
}

// deserted is the problem as it would be if nobody used the nodes that are up.
func (c *chooser) deserted() *chooser {
	p := c.problem
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		down := p.candidates[i].Down
		p.candidates[i] = p.candidates[i].ideal()
		p.candidates[i].Down = down
	}
	idle := &chooser{problem: p}
	idle.usable, _ = judge(p.req, p.candidates, p.turns)
	idle.turns = slices.DeleteFunc(slices.Clone(p.turns), func(turn int) bool {
		return !slices.ContainsFunc(idle.usable, func(may []bool) bool { return may[turn] })
	})
	idle.survey()
	return idle
}

// try places the ranks on lots or, if they are to be neighbours, on parts of them. With unshared no
// CPU is shared.
func (c *chooser) try(found *solution, lots []lot, unshared bool) *Error {
	if contiguous(c.req) {
		var failed *Error
		if lots, failed = c.windows(lots); failed != nil {
			return failed
		}
	}
	return c.fill(found, lots, unshared)
}

// fill places the ranks on lots, each in the order of its nodes.
func (c *chooser) fill(found *solution, lots []lot, unshared bool) *Error {
	var turns []int
	for _, l := range lots {
		turns = append(turns, l.turns...)
	}
	s := newPlacement(c.req, c.candidates, c.of, turns)
	s.unshared = unshared
	if failed := s.place(lots, c.usable, c.mode); failed != nil {
		return failed
	}
	found.placement, found.lots = s, lots
	return nil
}
