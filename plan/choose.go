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

// A placementGroup is nodes that were chosen together, and the ranks that go there.
type placementGroup struct {
	nodeSet string // the node set; empty: none
	entries []int  // in list order
	ranks   int    // 0: all of the job

	inFillOrder bool // the turns are in the order in which they are filled
}

// A nodeChooser chooses for one problem.
type nodeChooser struct {
	problem
	usable  [][]bool
	entries []int // that some part of the job may use
	nodes   []int // the candidates of these, each once
	sets    *nodeset.Chooser
}

// chooseNodes finds nodes that hold the job, and places its ranks there.
func (p problem) chooseNodes(found *solution) *Error {
	c := &nodeChooser{problem: p, usable: found.usable}
	c.entries = slices.DeleteFunc(slices.Clone(p.entries), func(turn int) bool {
		return !slices.ContainsFunc(found.usable, func(may []bool) bool { return may[turn] })
	})
	if !p.restrictsNodes() || len(c.entries) == 0 {
		return c.useAllNodes(found)
	}
	c.collectNodes()
	found.setChooser = c.sets
	waiting := c.waitsForSet()
	if c.chooseInPasses(found, waiting) {
		return nil
	}
	if failed := c.useAllNodes(found); failed != nil {
		return failed
	}
	found.placement = nil
	return c.refuseSets(waiting)
}

// useAllNodes tries all nodes; why neighbours do not hold the job is told if others do.
func (c *nodeChooser) useAllNodes(found *solution) *Error {
	lots := []placementGroup{{entries: c.entries}}
	if !isContiguous(c.req) {
		return c.tryGroups(found, lots, false)
	}
	if failed := c.placeOnGroups(new(solution), lots, false); failed != nil {
		return failed
	}
	return c.tryGroups(found, lots, false)
}

// restrictsNodes reports whether something was said of which nodes are to be chosen.
func (p problem) restrictsNodes() bool {
	return p.req.FixedPlacements == nil && (p.req.NodeSet.Policy != "" || p.req.Balance)
}

// chooseInPasses tries what may be chosen, first without sharing CPUs, then, if that is welcome, with it.
func (c *nodeChooser) chooseInPasses(found *solution, waiting bool) bool {
	if lots := c.chooseBySet(waiting); lots != nil && c.tryGroups(found, lots, true) == nil {
		return true
	}
	if waiting {
		return false
	}
	if lots := c.spanSets(); lots != nil && c.tryGroups(found, lots, true) == nil {
		return true
	}
	if c.mayUseNodesOutsideSets() {
		found.withoutSet = c.req.NodeSet.Policy != ""
		if lots := []placementGroup{c.newGroup("", c.balanceBySpeed(c.sets.AllNodes(), c.sets.Ranks), 0)}; c.tryGroups(found, lots, true) == nil {
			return true
		}
	}
	found.withoutSet = false
	if !c.mayShareCPUs() {
		return false
	}
	for _, lots := range c.chooseBySetSharingCPUs() {
		if c.tryGroups(found, lots, false) == nil {
			return true
		}
	}
	found.withoutSet = c.mayUseNodesOutsideSets() && c.req.NodeSet.Policy != ""
	return c.mayUseNodesOutsideSets() && c.tryGroups(found, []placementGroup{{entries: c.entries}}, false) == nil
}

// mayUseNodesOutsideSets reports whether the job may use nodes that are in no set.
func (c *nodeChooser) mayUseNodesOutsideSets() bool {
	return c.req.NodeSet.Policy == "" || c.req.NodeSet.Optional
}

// mayShareCPUs reports whether ranks may share CPUs, if need be.
func (c *nodeChooser) mayShareCPUs() bool {
	return !c.req.NoOversubscribe && (c.req.Overbook || c.req.ShareOwnCPUs || c.req.LocalOnly)
}

// collectNodes gathers what there is to choose from.
func (c *nodeChooser) collectNodes() {
	c.nodes = distinctCandidates(c.entries, len(c.candidates))
	empty := newPlacement(c.req, c.candidates, c.candidateOf, c.entries)
	rooms := make([]int, len(c.candidates)) // of the section that finds most
	ranks := 0
	counted := true
	for a, app := range c.req.Apps {
		empty.confineApp(app.NUMA)
		for i, room := range empty.eligibleFor(app, c.usable[a]).capacity {
			rooms[i] = max(rooms[i], ranksInShape(app, room))
		}
		ranks += app.N
		counted = counted && app.N > 0
	}
	if !counted {
		ranks = 0
	}
	nodes := make([]nodeset.Node, len(c.nodes))
	welcome := c.affinityOf()
	for k, i := range c.nodes {
		n := &c.candidates[i]
		nodes[k] = nodeset.Node{Value: n.Attribute(c.req.NodeSet.Attribute), Global: n.InAllSets, Capacity: rooms[i], Size: n.SlotCount(),
			Speed: n.Attribute(nodeset.ProcSpeed).Number, Affinity: welcome(&n.Node)}
	}
	holds := c.nodesHoldRanks
	if counted && len(c.req.Apps) == 1 && empty.layout == nil && c.req.Apps[0].ExactPerNode == 0 && !isContiguous(c.req) {
		holds = nil // the sum of the rooms decides
	}
	c.sets = nodeset.NewChooser(c.req.NodeSet, nodes, ranks, holds)
}

// affinityOf tells the affinity of a node: by the first entry of the cluster's that is for it.
func (c *nodeChooser) affinityOf() func(*job.Node) int {
	if c.req.NodeSet.Priority != nodeset.ByAffinity {
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

// nodesHoldRanks runs order and place on some nodes alone, for so many ranks or, where it is 0, all of the job.
func (c *nodeChooser) nodesHoldRanks(members []int, ranks int) bool {
	if len(members) == 0 {
		return false
	}
	if ranks == c.sets.Ranks {
		ranks = 0
	}
	return c.tryGroups(new(solution), []placementGroup{c.newGroup("", members, ranks)}, true) == nil
}

// newGroup is a lot of some of the nodes.
func (c *nodeChooser) newGroup(set string, members []int, ranks int) placementGroup {
	in := make([]bool, len(c.candidates))
	for _, k := range members {
		in[c.nodes[k]] = true
	}
	return placementGroup{nodeSet: set, entries: slices.DeleteFunc(slices.Clone(c.entries), func(turn int) bool { return !in[turn] }), ranks: ranks}
}

// balanceBySpeed are those of some members that differ least in speed, if that was asked for.
func (c *nodeChooser) balanceBySpeed(members []int, ranks int) []int {
	if !c.req.Balance || isContiguous(c.req) {
		return members
	}
	return c.sets.Balance(members, ranks)
}

// chooseBySet is what the policy chooses where no CPU is shared; nil: nothing fits. Who waits for the best
// set takes no other.
func (c *nodeChooser) chooseBySet(waiting bool) []placementGroup {
	s := c.req.NodeSet
	switch {
	case s.Policy == "":
		return nil
	case s.Policy == nodeset.AnyOf:
		members := c.sets.UnionMembers()
		if !c.sets.HoldsRanks(members, c.sets.Ranks) {
			return nil
		}
		return []placementGroup{c.newGroup(c.sets.UnionName(), c.balanceBySpeed(members, c.sets.Ranks), 0)}
	case waiting && s.Plus.Delay:
		set, members := c.sets.ChooseNamed(c.bestSetWhenIdle())
		if set < 0 {
			return nil
		}
		return []placementGroup{c.newGroup(c.sets.Sets[set].Name, c.balanceBySpeed(members, c.sets.Ranks), 0)}
	}
	set, members := c.sets.ChooseOne()
	if set < 0 {
		return nil
	}
	return []placementGroup{c.newGroup(c.sets.Sets[set].Name, c.balanceBySpeed(members, c.sets.Ranks), 0)}
}

// chooseBySetSharingCPUs are what the policy would choose where CPUs are shared, in the order in which it is tried.
func (c *nodeChooser) chooseBySetSharingCPUs() (choices [][]placementGroup) {
	switch c.req.NodeSet.Policy {
	case "":
	case nodeset.AnyOf:
		choices = append(choices, []placementGroup{c.newGroup(c.sets.UnionName(), c.sets.UnionMembers(), 0)})
	default:
		for _, set := range c.sets.BySize() {
			choices = append(choices, []placementGroup{c.newGroup(c.sets.Sets[set].Name, c.sets.Sets[set].Members, 0)})
		}
	}
	return choices
}

// spanSets is an even span over several sets, if that was asked for and there is one.
func (c *nodeChooser) spanSets() (lots []placementGroup) {
	s := c.req.NodeSet
	if !s.Plus.SpanEvenly || s.Policy == nodeset.AnyOf || s.Policy == "" || len(c.req.Apps) > 1 || isContiguous(c.req) {
		return nil
	}
	for _, part := range c.sets.Span() {
		lots = append(lots, c.newGroup(c.sets.Sets[part.Set].Name, c.balanceBySpeed(part.Members, part.Ranks), part.Ranks))
	}
	return lots
}

// waitsForSet reports whether the job still insists on one set: an idle cluster would hold it there.
func (c *nodeChooser) waitsForSet() bool {
	if c.req.NodeSet.Policy == "" || c.req.NodeSet.Delay <= c.waited {
		return false
	}
	return c.whenIdle().chooseBySet(false) != nil
}

// bestSetWhenIdle is the name of the set that would be chosen on an idle cluster.
func (c *nodeChooser) bestSetWhenIdle() string {
	if lots := c.whenIdle().chooseBySet(false); lots != nil {
		return lots[0].nodeSet
	}
	return ""
}

// whenIdle is the problem as it would be if nobody used the nodes that are up.
func (c *nodeChooser) whenIdle() *nodeChooser {
	p := c.problem
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		down := p.candidates[i].Down
		p.candidates[i] = p.candidates[i].whenIdle()
		p.candidates[i].Down = down
	}
	idle := &nodeChooser{problem: p}
	idle.usable, _ = selectCandidates(p.req, p.candidates, p.entries)
	idle.entries = slices.DeleteFunc(slices.Clone(p.entries), func(turn int) bool {
		return !slices.ContainsFunc(idle.usable, func(may []bool) bool { return may[turn] })
	})
	idle.collectNodes()
	return idle
}

// tryGroups places the ranks on lots or, if they are to be neighbours, on parts of them. With unshared no
// CPU is shared.
func (c *nodeChooser) tryGroups(found *solution, lots []placementGroup, unshared bool) *Error {
	if isContiguous(c.req) {
		var failed *Error
		if lots, failed = c.contiguousWindows(lots); failed != nil {
			return failed
		}
	}
	return c.placeOnGroups(found, lots, unshared)
}

// placeOnGroups places the ranks on lots, each in the order of its nodes.
func (c *nodeChooser) placeOnGroups(found *solution, lots []placementGroup, unshared bool) *Error {
	var turns []int
	for _, l := range lots {
		turns = append(turns, l.entries...)
	}
	s := newPlacement(c.req, c.candidates, c.candidateOf, turns)
	s.mustNotShare = unshared
	if failed := s.placeGroups(lots, c.usable, c.sortMode); failed != nil {
		return failed
	}
	found.placement, found.groups = s, lots
	return nil
}
