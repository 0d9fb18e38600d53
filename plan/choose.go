package plan

import (
	"slices"
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
)

// This file chooses nodes among the usable ones (which-hosts.md):
//
//	sets = build(candidates)
//	waiting = delay > waited, and an idle cluster would run the job in one set without sharing CPUs
//	passes  = normal; then overbooked, if CPUs may be shared and the job is not waiting
//	in each pass, the first that applies:
//	    a set fits by the policy            -> that set
//	    waiting                             -> next pass
//	    SPANEVENLY, normal pass, ONEOF or FIRSTOF, one executable, an even span exists -> its parts
//	    no request, or optional             -> all candidates, if they fit
//	nothing: refused

// A placementGroup is a group of nodes that were chosen together, with the number of ranks to place on them.
type placementGroup struct {
	nodeSet string // the node set; empty if there is none
	entries []int  // host entries, in list order
	ranks   int    // 0 means all ranks of the job

	inFillOrder bool // entries are already sorted in the order in which nodes are filled
}

// A nodeChooser chooses the nodes on which the job of a problem runs.
type nodeChooser struct {
	problem
	usable  [][]bool
	entries []int // host entries that some app of the job may use
	nodes   []int // the candidates of entries, each once
	sets    *nodeset.Chooser
}

// chooseNodes chooses nodes that can run the job, places the job's ranks on them, and stores the result in found.
func (p problem) chooseNodes(found *solution) *Error {
	c := &nodeChooser{problem: p, usable: found.usable}
	c.entries = slices.DeleteFunc(slices.Clone(p.entries), func(entry int) bool {
		return !slices.ContainsFunc(found.usable, func(may []bool) bool { return may[entry] })
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

// useAllNodes places the ranks on any usable nodes. If the job needs contiguous nodes (neighbors) but fits only on
// scattered nodes, the error says why no contiguous nodes can run the job.
func (c *nodeChooser) useAllNodes(found *solution) *Error {
	groups := []placementGroup{{entries: c.entries}}
	if !isContiguous(c.req) {
		return c.tryGroups(found, groups, false)
	}
	if failed := c.placeOnGroups(new(solution), groups, false); failed != nil {
		return failed
	}
	return c.tryGroups(found, groups, false)
}

// restrictsNodes reports whether the request restricts the nodes: to a node set, or to nodes with similar
// speeds.
func (p problem) restrictsNodes() bool {
	return p.req.FixedPlacements == nil && (p.req.NodeSet.Policy != "" || p.req.Balance)
}

// chooseInPasses tries one possible choice of nodes after the other, and stores in found the first one that the job
// fits on. The first pass does not let ranks share CPUs. If sharing is allowed, a second pass does. It returns false if
// the job fits on none. If waiting is true, it tries only the best node set, without sharing.
func (c *nodeChooser) chooseInPasses(found *solution, waiting bool) bool {
	if groups := c.chooseBySet(waiting); groups != nil && c.tryGroups(found, groups, true) == nil {
		return true
	}
	if waiting {
		return false
	}
	if groups := c.spanSets(); groups != nil && c.tryGroups(found, groups, true) == nil {
		return true
	}
	if c.mayUseNodesOutsideSets() {
		found.withoutSet = c.req.NodeSet.Policy != ""
		if groups := []placementGroup{c.newGroup("", c.balanceBySpeed(c.sets.AllNodes(), c.sets.Ranks), 0)}; c.tryGroups(found, groups, true) == nil {
			return true
		}
	}
	found.withoutSet = false
	if !c.mayShareCPUs() {
		return false
	}
	for _, groups := range c.chooseBySetSharingCPUs() {
		if c.tryGroups(found, groups, false) == nil {
			return true
		}
	}
	found.withoutSet = c.mayUseNodesOutsideSets() && c.req.NodeSet.Policy != ""
	return c.mayUseNodesOutsideSets() && c.tryGroups(found, []placementGroup{{entries: c.entries}}, false) == nil
}

// mayUseNodesOutsideSets reports whether the job may use nodes that are in no node set.
func (c *nodeChooser) mayUseNodesOutsideSets() bool {
	return c.req.NodeSet.Policy == "" || c.req.NodeSet.Optional
}

// mayShareCPUs reports whether ranks may share CPUs if there are too few free CPUs.
func (c *nodeChooser) mayShareCPUs() bool {
	return !c.req.NoOversubscribe && (c.req.Overbook || c.req.ShareOwnCPUs || c.req.LocalOnly)
}

// collectNodes computes the capacity of each usable node and forms the node sets.
func (c *nodeChooser) collectNodes() {
	c.nodes = distinctCandidates(c.entries, len(c.candidates))
	empty := newPlacement(c.req, c.candidates, c.candidateOf, c.entries)
	capacities := make([]int, len(c.candidates)) // of the app with the largest capacity
	ranks := 0
	counted := true
	for a, app := range c.req.Apps {
		empty.confineApp(app.NUMA)
		for i, capacity := range empty.eligibleFor(app, c.usable[a]).capacity {
			capacities[i] = max(capacities[i], ranksInShape(app, capacity))
		}
		ranks += app.N
		counted = counted && app.N > 0
	}
	if !counted {
		ranks = 0
	}
	nodes := make([]nodeset.Node, len(c.nodes))
	affinity := c.affinityOf()
	for k, i := range c.nodes {
		n := &c.candidates[i]
		nodes[k] = nodeset.Node{Value: n.Attribute(c.req.NodeSet.Attribute), Global: n.InAllSets, Capacity: capacities[i], Size: n.SlotCount(),
			Speed: n.Attribute(nodeset.ProcSpeed).Number, Affinity: affinity(&n.Node)}
	}
	holds := c.nodesHoldRanks
	if counted && len(c.req.Apps) == 1 && empty.layout == nil && c.req.Apps[0].ExactPerNode == 0 && !isContiguous(c.req) {
		holds = nil // the sum of the capacities decides
	}
	c.sets = nodeset.NewChooser(c.req.NodeSet, nodes, ranks, holds)
}

// affinityOf returns a function that returns the affinity of a node. This is the value of the first affinity
// entry that matches the node, or 0 if none matches.
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

// nodesHoldRanks reports whether the nodes in members alone can run the given number of ranks. If ranks is 0, it
// stands for all ranks of the job. To find out, nodesHoldRanks places the ranks on these nodes.
func (c *nodeChooser) nodesHoldRanks(members []int, ranks int) bool {
	if len(members) == 0 {
		return false
	}
	if ranks == c.sets.Ranks {
		ranks = 0
	}
	return c.tryGroups(new(solution), []placementGroup{c.newGroup("", members, ranks)}, true) == nil
}

// newGroup returns a placement group of some candidates. members contains their indexes in c.nodes.
func (c *nodeChooser) newGroup(set string, members []int, ranks int) placementGroup {
	in := make([]bool, len(c.candidates))
	for _, k := range members {
		in[c.nodes[k]] = true
	}
	return placementGroup{nodeSet: set, entries: slices.DeleteFunc(slices.Clone(c.entries), func(entry int) bool { return !in[entry] }), ranks: ranks}
}

// balanceBySpeed returns a part of members: the nodes that differ least in speed, but can run the ranks together.
// Without --balance it returns all members.
func (c *nodeChooser) balanceBySpeed(members []int, ranks int) []int {
	if !c.req.Balance || isContiguous(c.req) {
		return members
	}
	return c.sets.Balance(members, ranks)
}

// chooseBySet chooses nodes by the policy of the node-set request, for ranks that do not share CPUs. It returns nil if
// the job does not fit. If waiting is true, it considers only the best node set.
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
		name, members := c.bestSetWhenIdle()
		if members = c.sets.UsableMembers(members); members == nil {
			return nil
		}
		return []placementGroup{c.newGroup(name, c.balanceBySpeed(members, c.sets.Ranks), 0)}
	}
	set, members := c.sets.ChooseOne()
	if set < 0 {
		return nil
	}
	return []placementGroup{c.newGroup(c.sets.Sets[set].Name, c.balanceBySpeed(members, c.sets.Ranks), 0)}
}

// chooseBySetSharingCPUs returns the node sets that the job may use if its ranks share CPUs, in the order in which to
// try them. The order depends on the policy of the node-set request.
func (c *nodeChooser) chooseBySetSharingCPUs() (choices [][]placementGroup) {
	switch c.req.NodeSet.Policy {
	case "":
	case nodeset.AnyOf:
		choices = append(choices, []placementGroup{c.newGroup(c.sets.UnionName(), c.sets.UnionMembers(), 0)})
	default:
		for _, set := range c.sets.OrderForSharing() {
			choices = append(choices, []placementGroup{c.newGroup(c.sets.Sets[set].Name, c.sets.Sets[set].Members, 0)})
		}
	}
	return choices
}

// spanSets returns the placement groups of a job that is divided evenly among several node sets. It returns nil if
// the user has not requested that or if it is not possible.
func (c *nodeChooser) spanSets() (groups []placementGroup) {
	s := c.req.NodeSet
	if !s.Plus.SpanEvenly || s.Policy == nodeset.AnyOf || s.Policy == "" || len(c.req.Apps) > 1 || isContiguous(c.req) {
		return nil
	}
	for _, part := range c.sets.Span() {
		groups = append(groups, c.newGroup(c.sets.Sets[part.Set].Name, c.balanceBySpeed(part.Members, part.Ranks), part.Ranks))
	}
	return groups
}

// waitsForSet reports whether the job must still wait until it fits into one node set. It waits no longer than the delay
// in its node-set request, and not at all if it would fit into no node set of the idle cluster.
func (c *nodeChooser) waitsForSet() bool {
	if c.req.NodeSet.Policy == "" || c.req.NodeSet.Delay <= c.waited {
		return false
	}
	return c.whenIdle().chooseBySet(false) != nil
}

// bestSetWhenIdle returns the node set that would be chosen if no job ran on the cluster. members contains the nodes of
// the set that are candidates now. If no set of the idle cluster could run the job, members is nil. name is the name of
// a current node set with the same members. If there is none, name is the set's name in the idle cluster.
func (c *nodeChooser) bestSetWhenIdle() (name string, members []int) {
	idle := c.whenIdle()
	set, _ := idle.sets.ChooseOne()
	if set < 0 {
		return "", nil
	}
	now := make(map[int]int, len(c.nodes)) // index into c.nodes by candidate
	for k, i := range c.nodes {
		now[i] = k
	}
	for _, k := range idle.sets.Sets[set].Members {
		if k, is := now[idle.nodes[k]]; is {
			members = append(members, k)
		}
	}
	return c.sets.NameOf(members, idle.sets.Sets[set].Name), members
}

// whenIdle returns the chooser as it would be if no job used the nodes that can be reached.
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
	idle.entries = slices.DeleteFunc(slices.Clone(p.entries), func(entry int) bool {
		return !slices.ContainsFunc(idle.usable, func(may []bool) bool { return may[entry] })
	})
	idle.collectNodes()
	return idle
}

// tryGroups places the ranks on placement groups. If the job needs contiguous nodes (neighbors), it first reduces
// each group to such nodes. If unshared is true, ranks must not share CPUs.
func (c *nodeChooser) tryGroups(found *solution, groups []placementGroup, unshared bool) *Error {
	if isContiguous(c.req) {
		var failed *Error
		if groups, failed = c.contiguousWindows(groups); failed != nil {
			return failed
		}
	}
	return c.placeOnGroups(found, groups, unshared)
}

// placeOnGroups places the ranks on groups of nodes, and fills each group in the order of its nodes. If unshared is
// true, ranks must not share CPUs.
func (c *nodeChooser) placeOnGroups(found *solution, groups []placementGroup, unshared bool) *Error {
	var entries []int
	for _, l := range groups {
		entries = append(entries, l.entries...)
	}
	s := newPlacement(c.req, c.candidates, c.candidateOf, entries)
	s.mustNotShare = unshared
	if failed := s.placeGroups(groups, c.usable, c.sortMode); failed != nil {
		return failed
	}
	found.placement, found.groups = s, groups
	return nil
}
