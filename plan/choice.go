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

// This file tells what was chosen, and why nothing was.

// choiceFor is the choice of a solution; nil: nothing was said of which nodes.
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
		part := job.ChosenGroup{Set: l.nodeSet, Ranks: ranks}
		seen := make([]bool, len(p.candidates))
		for _, to := range assigned[:ranks] {
			if !seen[to.candidate] {
				seen[to.candidate] = true
				part.Nodes = append(part.Nodes, p.candidates[to.candidate].Name)
			}
		}
		assigned = assigned[ranks:]
		choice.Groups = append(choice.Groups, part)
	}
	return choice
}

// hasNodeChoice reports whether user or cluster say anything of which nodes a job gets.
func (p problem) hasNodeChoice() bool {
	r := &p.req
	return r.Class != "" || r.NodeSet.Policy != "" || r.Balance || r.Regions != nil || r.Reserve > 0 || r.Memory > 0 || r.Contiguous != "" ||
		slices.ContainsFunc(r.Apps, func(app job.App) bool { return app.ExactPerNode > 0 || app.NUMA.IsSet() || app.HWThreads != 0 }) ||
		slices.ContainsFunc(p.candidates, func(c candidate) bool { return c.Reserve > 0 || c.Flavors != nil })
}

// setChoiceFor tells which sets there were, and which was taken.
func (p problem) setChoiceFor(found *solution) *job.SetChoice {
	set := &p.req.NodeSet
	if set.Policy == "" || found.setChooser == nil {
		return nil
	}
	told := &job.SetChoice{Request: set.Request.String(), From: set.Source, Priority: string(set.Priority), WithoutSet: found.withoutSet}
	for i, s := range found.setChooser.Sets {
		told.Sets = append(told.Sets, job.ConsideredSet{Name: s.Name, Nodes: len(s.Members), Capacity: s.Capacity, Fits: found.setChooser.SetFits(i)})
		if set.Policy == nodeset.AnyOf && !found.withoutSet {
			told.Chosen = append(told.Chosen, s.Name)
		}
	}
	for _, l := range found.groups {
		if set.Policy != nodeset.AnyOf && !found.withoutSet {
			told.Chosen = append(told.Chosen, l.nodeSet)
		}
	}
	return told
}

// unusedValueNotes warns of values that no node of the cluster has.
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

// mixedSpeedNotes warns where hosts are compared by speeds that were found in different ways (which-hosts.md 2.1), with the
// usable ones by way. What the cluster file says is taken for the speed under full load, as most probes find it.
func (p problem) mixedSpeedNotes(usable [][]bool) []job.Note {
	sets := p.req.NodeSet.Policy != "" && p.req.NodeSet.Attribute == nodeset.ProcSpeed
	if !p.restrictsNodes() || !sets && !p.req.Balance {
		return nil
	}
	nodes := make(map[job.SpeedQuality][]string)
	for _, turn := range distinctCandidates(p.entries, len(p.candidates)) {
		quality := p.candidates[turn].SpeedQuality()
		if quality == job.SpeedGiven {
			quality = job.SpeedNominal
		}
		if quality != "" && slices.ContainsFunc(usable, func(may []bool) bool { return may[turn] }) {
			nodes[quality] = append(nodes[quality], p.candidates[turn].Name)
		}
	}
	if len(nodes) < 2 {
		return nil
	}
	var ways []string
	for _, quality := range job.SpeedQualities {
		if of := nodes[quality]; of != nil {
			ways = append(ways, string(quality)+" on "+hostlist.FoldBrief(of))
		}
	}
	return []job.Note{{Code: "speed-quality", Text: fmt.Sprintf("speeds were found in different ways, and do not compare well: %s; procspeed in the cluster file settles it", strings.Join(ways, ", "))}}
}

// waitHint is the first way out of a refusal, unless it is for ever.
const waitHint = "--wait waits, "

// refuseSets is the refusal where all candidates hold the job, but no set does.
func (c *nodeChooser) refuseSets(delayed bool) *Error {
	set := &c.req.NodeSet
	what := fmt.Sprintf("no %s:%s set", set.Policy, set.Attribute)
	ranks := "the job"
	if c.sets.Ranks > 0 {
		ranks = text.Count(c.sets.Ranks, "rank")
	}
	failed := &Error{Code: CodeNoSet, Text: fmt.Sprintf("%s holds %s now%s", what, ranks, c.describeLargestSet("room for %d")), WantedRanks: c.sets.Ranks, FreeRanks: c.largestSetCapacity()}
	if delayed {
		failed.Code, failed.DelayLeft = CodeDelayed, set.Delay-c.waited
		failed.Text = fmt.Sprintf("%s; it waits for one, for %s more", failed.Text, failed.DelayLeft)
		return failed
	}
	idle := &nodeChooser{problem: c.problem.withIdleNodes(), usable: c.usable}
	idle.usable, _ = selectCandidates(idle.req, idle.candidates, idle.problem.entries)
	idle.entries = slices.Clone(idle.problem.entries)
	idle.collectNodes()
	failed.permanentText = fmt.Sprintf("%s can ever hold %s%s", what, ranks, idle.describeLargestSet("%d when idle"))
	failed.Remedy = waitHint
	if set.Policy != nodeset.AnyOf && len(c.req.Apps) == 1 && !set.Plus.SpanEvenly {
		failed.Remedy += "--node-set-plus SPANEVENLY spreads, "
	}
	failed.Remedy += "--node-set-optional yes leaves the sets"
	return failed
}

// largestSetCapacity is the room of the set that has most.
func (c *nodeChooser) largestSetCapacity() (room int) {
	for i := range c.sets.Sets {
		room = max(room, c.sets.Sets[i].Capacity)
	}
	return room
}

// describeLargestSet tells of the set with most room.
func (c *nodeChooser) describeLargestSet(room string) string {
	if len(c.sets.Sets) == 0 {
		return " (no node is in one)"
	}
	most := &c.sets.Sets[0]
	for i := range c.sets.Sets {
		if s := &c.sets.Sets[i]; s.Capacity > most.Capacity {
			most = s
		}
	}
	var names []string
	for _, k := range most.Members {
		names = append(names, c.candidates[c.nodes[k]].Name)
	}
	return fmt.Sprintf(" (largest: %s, "+room+" on %s)", most.Name, most.Capacity, hostlist.FoldBrief(names))
}
