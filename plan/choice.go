package plan

import (
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/text"
)

// This file reports which nodes and sets were chosen, and why no set was chosen.

// choiceFor returns, for the plan, a description of the chosen nodes and of how they were chosen. It returns nil if
// neither the request nor the cluster restricts the choice of nodes.
func (p problem) choiceFor(found *solution) *job.NodeChoice {
	req := &p.req
	if !p.hasNodeChoice() {
		return nil
	}
	choice := &job.NodeChoice{Class: req.Class, Regions: p.openRegions, ClosedRegions: p.closedRegions, Contiguous: req.Contiguous, ExactPerNode: req.Apps[0].ExactPerNode, NodeSet: p.setChoiceFor(found)}
	assigned := found.placement.assigned
	for _, l := range found.groups {
		ranks := l.ranks
		if ranks == 0 {
			ranks = len(assigned)
		}
		group := job.ChosenGroup{Set: l.nodeSet, Ranks: ranks}
		seen := make([]bool, len(p.candidates))
		for _, to := range assigned[:ranks] {
			if !seen[to.candidate] {
				seen[to.candidate] = true
				group.Nodes = append(group.Nodes, p.candidates[to.candidate].Name)
			}
		}
		assigned = assigned[ranks:]
		choice.Groups = append(choice.Groups, group)
	}
	return choice
}

// hasNodeChoice reports whether the request or the cluster restricts which nodes the job gets.
func (p problem) hasNodeChoice() bool {
	r := &p.req
	return r.Class != "" || r.NodeSet.Policy != "" || r.Balance || r.Regions != nil || r.Reserve > 0 || r.Memory > 0 || r.Contiguous != "" ||
		slices.ContainsFunc(r.Apps, func(app job.App) bool { return app.ExactPerNode > 0 || app.NUMA.IsSet() || app.HWThreads != 0 }) ||
		slices.ContainsFunc(p.candidates, func(c candidate) bool { return c.Reserve > 0 || c.Flavors != nil })
}

// setChoiceFor describes the node sets that were considered and the node sets that were chosen. It returns nil if the
// request does not mention node sets.
func (p problem) setChoiceFor(found *solution) *job.SetChoice {
	set := &p.req.NodeSet
	if set.Policy == "" || found.setChooser == nil {
		return nil
	}
	choice := &job.SetChoice{Request: set.Request.String(), From: set.Source, Priority: string(set.Priority), WithoutSet: found.withoutSet}
	for i, s := range found.setChooser.Sets {
		choice.Sets = append(choice.Sets, job.ConsideredSet{Name: s.Name, Nodes: len(s.Members), Capacity: s.Capacity, Fits: found.setChooser.SetFits(i)})
		if set.Policy == nodeset.AnyOf && !found.withoutSet {
			choice.Chosen = append(choice.Chosen, s.Name)
		}
	}
	for _, l := range found.groups {
		if set.Policy != nodeset.AnyOf && !found.withoutSet {
			choice.Chosen = append(choice.Chosen, l.nodeSet)
		}
	}
	return choice
}

// unusedValueNotes returns a warning for each value in the node-set request that no node of the cluster
// has.
func (p problem) unusedValueNotes() (notes []job.Note) {
	set := p.req.NodeSet
	if set.List == nil {
		return nil
	}
	nodes := make([]nodeset.Node, len(p.candidates))
	for i := range p.candidates {
		nodes[i] = nodeset.Node{Value: p.candidates[i].Attribute(set.Attribute), Global: p.candidates[i].InAllSets}
	}
	values := nodeset.UnusedValues(set, nodes)
	for i, value := range values {
		if i == hostlist.MaxListed {
			return append(notes, job.Note{Code: "unused-value", Text: fmt.Sprintf("and %d more values of %s that no node has", len(values)-i, set.Attribute)})
		}
		notes = append(notes, job.Note{Code: "unused-value", Text: fmt.Sprintf("no node has %s %s", set.Attribute, value)})
	}
	return notes
}

// mixedSpeedNotes returns a warning if hosts are compared by speeds from different sources (which-hosts.md 2.1). The
// warning lists the usable hosts by source. A speed from the cluster file is treated as nominal (the speed under full
// load), because helpers find nominal speeds on most machines.
func (p problem) mixedSpeedNotes(usable [][]bool) []job.Note {
	sets := p.req.NodeSet.Policy != "" && p.req.NodeSet.Attribute == nodeset.ProcSpeed
	if !p.restrictsNodes() || !sets && !p.req.Balance {
		return nil
	}
	nodes := make(map[job.SpeedQuality][]string)
	for _, entry := range distinctCandidates(p.entries, len(p.candidates)) {
		quality := p.candidates[entry].SpeedQuality()
		if quality == job.SpeedGiven {
			quality = job.SpeedNominal
		}
		if quality != "" && slices.ContainsFunc(usable, func(may []bool) bool { return may[entry] }) {
			nodes[quality] = append(nodes[quality], p.candidates[entry].Name)
		}
	}
	if len(nodes) < 2 {
		return nil
	}
	var origins []string
	for _, quality := range job.SpeedQualities {
		if of := nodes[quality]; of != nil {
			origins = append(origins, string(quality)+" on "+hostlist.FoldBrief(of))
		}
	}
	return []job.Note{{Code: "speed-quality", Text: fmt.Sprintf("CPU speeds come from different sources and are hard to compare: %s; set procspeed in the cluster file", strings.Join(origins, ", "))}}
}

// waitHint is the first part of the hint for a job that could run later.
const waitHint = "to wait: --wait; "

// refuseSets returns the error for a job that could run on all candidates together but not on any node set. delayed is
// true if the job waits for a node set.
func (c *nodeChooser) refuseSets(delayed bool) *Error {
	set := &c.req.NodeSet
	noSet := fmt.Sprintf("no %s:%s set", set.Policy, set.Attribute)
	ranks := "the job"
	if c.sets.Ranks > 0 {
		ranks = text.Count(c.sets.Ranks, "rank")
	}
	shortage, free := c.describeShortage("at most %s")
	failed := &Error{Code: CodeNoSet, Text: fmt.Sprintf("%s has room for %s now%s", noSet, ranks, shortage), WantedRanks: c.sets.Ranks, FreeRanks: free}
	if delayed {
		failed.Code, failed.DelayLeft = CodeDelayed, set.Delay-c.waited
		thisSet := "one"
		if set.Plus.Delay && set.Policy != nodeset.AnyOf {
			best, members := c.bestSetWhenIdle()
			shortage, failed.FreeRanks = c.describeShortageOf(best, members, "%s")
			failed.Text = fmt.Sprintf("the best %s:%s set has no room for %s now%s", set.Policy, set.Attribute, ranks, shortage)
			thisSet = "it"
		}
		failed.Text = fmt.Sprintf("%s; the job waits for %s at most %s longer", failed.Text, thisSet, failed.DelayLeft)
		return failed
	}
	idle := &nodeChooser{problem: c.problem.withIdleNodes(), usable: c.usable}
	idle.usable, _ = selectCandidates(idle.req, idle.candidates, idle.problem.entries)
	idle.entries = slices.Clone(idle.problem.entries)
	idle.collectNodes()
	shortage, _ = idle.describeShortage("at most %s when idle")
	failed.permanentText = fmt.Sprintf("%s can ever have room for %s%s", noSet, ranks, shortage)
	failed.Remedy = waitHint
	if set.Policy != nodeset.AnyOf && len(c.req.Apps) == 1 && !set.Plus.SpanEvenly {
		failed.Remedy += "to use several sets: --node-set-plus SPANEVENLY; "
	}
	failed.Remedy += "to use hosts outside of a set: --node-set-optional yes"
	return failed
}

// describeShortage returns a phrase that says why no node set can run the job, and for how many ranks there is room. It
// describes the set with the largest capacity or, for the policy ANYOF, the union of all sets. capacity is a format
// string for the number of ranks, such as "at most %s".
func (c *nodeChooser) describeShortage(capacity string) (shortage string, free int) {
	if len(c.sets.Sets) == 0 {
		return " (no node is in such a set)", 0
	}
	if c.req.NodeSet.Policy == nodeset.AnyOf {
		return c.describeShortageOf(c.sets.UnionName(), c.sets.UnionMembers(), capacity)
	}
	largest := &c.sets.Sets[0]
	for i := range c.sets.Sets {
		if s := &c.sets.Sets[i]; s.Capacity > largest.Capacity {
			largest = s
		}
	}
	return c.describeShortageOf("largest: "+largest.Name, largest.Members, capacity)
}

// describeShortageOf returns a phrase that says why the nodes in members cannot run the job, and for how many ranks
// there is room on them. If the capacity of the nodes is large enough, the phrase gives another reason, for example
// that the nodes are not neighbors.
func (c *nodeChooser) describeShortageOf(name string, members []int, capacity string) (shortage string, free int) {
	if len(members) == 0 {
		return fmt.Sprintf(" (%s; none of its nodes is free)", name), 0
	}
	var names []string
	for _, k := range members {
		names = append(names, c.candidates[c.nodes[k]].Name)
		free += c.sets.Nodes[k].Capacity
	}
	if c.sets.Ranks == 0 || free >= c.sets.Ranks {
		if failed := c.tryGroups(new(solution), []placementGroup{c.newGroup("", members, 0)}, true); failed != nil {
			return fmt.Sprintf(" (%s: %s)", name, failed.Text), failed.FreeRanks
		}
	}
	return fmt.Sprintf(" (%s, "+capacity+" on %s)", name, text.Count(free, "rank"), hostlist.FoldBrief(names)), free
}
