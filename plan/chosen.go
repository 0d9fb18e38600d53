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

// told is the choice of a solution; nil: nothing was said of which nodes.
func (p problem) told(found *solution) *job.Choice {
	req := &p.req
	if !p.chooses() {
		return nil
	}
	choice := &job.Choice{Class: req.Class, Regions: p.regions, Closed: p.closed, Contiguous: req.Contiguous, Shape: req.Apps[0].Shape, Set: p.toldSet(found)}
	assigned := found.placement.assigned
	for _, l := range found.lots {
		ranks := l.ranks
		if ranks == 0 {
			ranks = len(assigned)
		}
		part := job.ChosenPart{Set: l.set, Ranks: ranks}
		seen := make([]bool, len(p.candidates))
		for _, to := range assigned[:ranks] {
			if !seen[to.candidate] {
				seen[to.candidate] = true
				part.Nodes = append(part.Nodes, p.candidates[to.candidate].Name)
			}
		}
		assigned = assigned[ranks:]
		choice.Parts = append(choice.Parts, part)
	}
	return choice
}

// chooses reports whether user or cluster say anything of which nodes a job gets.
func (p problem) chooses() bool {
	r := &p.req
	return r.Class != "" || r.Set.Policy != "" || r.Balance || r.Regions != nil || r.Reserve > 0 || r.Memory > 0 || r.Contiguous != "" ||
		slices.ContainsFunc(r.Apps, func(app job.App) bool { return app.Shape > 0 || app.NUMA.Confines() || app.HWThreads != 0 }) ||
		slices.ContainsFunc(p.candidates, func(c candidate) bool { return c.Reserve > 0 || c.Flavors != nil })
}

// toldSet tells which sets there were, and which was taken.
func (p problem) toldSet(found *solution) *job.SetChoice {
	set := &p.req.Set
	if set.Policy == "" || found.sets == nil {
		return nil
	}
	told := &job.SetChoice{Request: set.Request.String(), From: set.From, Priority: string(set.Priority), Left: found.left}
	for i, s := range found.sets.Sets {
		told.Sets = append(told.Sets, job.ConsideredSet{Name: s.Name, Nodes: len(s.Members), Room: s.Room, Fits: found.sets.Fits(i)})
		if set.Policy == nodeset.AnyOf && !found.left {
			told.Chosen = append(told.Chosen, s.Name)
		}
	}
	for _, l := range found.lots {
		if set.Policy != nodeset.AnyOf && !found.left {
			told.Chosen = append(told.Chosen, l.set)
		}
	}
	return told
}

// unused warns of values that no node of the cluster has.
func (p problem) unused() (notes []job.Note) {
	set := p.req.Set
	if set.List == nil {
		return nil
	}
	nodes := make([]nodeset.Node, len(p.candidates))
	for i := range p.candidates {
		nodes[i] = nodeset.Node{Value: p.candidates[i].Attribute(set.Attribute), Global: p.candidates[i].Global}
	}
	values := nodeset.Unused(set, nodes)
	for i, value := range values {
		if i == hostlist.MostTold {
			return append(notes, job.Note{Code: "unused-value", Text: fmt.Sprintf("and %d more values of %s that no node has", len(values)-i, set.Attribute)})
		}
		notes = append(notes, job.Note{Code: "unused-value", Text: fmt.Sprintf("no node has %s %s", set.Attribute, value)})
	}
	return notes
}

// mixedSpeeds warns where hosts are compared by speeds that were found in different ways (which-hosts.md 2.1), with the
// usable ones by way. What the cluster file says is taken for the speed under full load, as most probes find it.
func (p problem) mixedSpeeds(usable [][]bool) []job.Note {
	sets := p.req.Set.Policy != "" && p.req.Set.Attribute == nodeset.ProcSpeed
	if !p.choosy() || !sets && !p.req.Balance {
		return nil
	}
	nodes := make(map[job.Quality][]string)
	for _, turn := range distinct(p.turns, len(p.candidates)) {
		quality := p.candidates[turn].SpeedQuality()
		if quality == job.Given {
			quality = job.Nominal
		}
		if quality != "" && slices.ContainsFunc(usable, func(may []bool) bool { return may[turn] }) {
			nodes[quality] = append(nodes[quality], p.candidates[turn].Name)
		}
	}
	if len(nodes) < 2 {
		return nil
	}
	var ways []string
	for _, quality := range job.Qualities {
		if of := nodes[quality]; of != nil {
			ways = append(ways, string(quality)+" on "+hostlist.Brief(of))
		}
	}
	return []job.Note{{Code: "speed-quality", Text: fmt.Sprintf("speeds were found in different ways, and do not compare well: %s; procspeed in the cluster file settles it", strings.Join(ways, ", "))}}
}

// waiting is the first way out of a refusal, unless it is for ever.
const waiting = "--wait waits, "

// refuseSets is the refusal where all candidates hold the job, but no set does.
func (c *chooser) refuseSets(delayed bool) *Error {
	set := &c.req.Set
	what := fmt.Sprintf("no %s:%s set", set.Policy, set.Attribute)
	ranks := "the job"
	if c.sets.Ranks > 0 {
		ranks = text.Count(c.sets.Ranks, "rank")
	}
	failed := &Error{Code: NoSet, Text: fmt.Sprintf("%s holds %s now%s", what, ranks, c.largest("room for %d")), Wanted: c.sets.Ranks, Free: c.most()}
	if delayed {
		failed.Code, failed.Left = Delayed, set.Delay-c.waited
		failed.Text = fmt.Sprintf("%s; it waits for one, for %s more", failed.Text, failed.Left)
		return failed
	}
	idle := &chooser{problem: c.problem.idle(), usable: c.usable}
	idle.usable, _ = judge(idle.req, idle.candidates, idle.problem.turns)
	idle.turns = slices.Clone(idle.problem.turns)
	idle.survey()
	failed.never = fmt.Sprintf("%s can ever hold %s%s", what, ranks, idle.largest("%d when idle"))
	failed.Way = waiting
	if set.Policy != nodeset.AnyOf && len(c.req.Apps) == 1 && !set.Plus.SpanEvenly {
		failed.Way += "--node-set-plus SPANEVENLY spreads, "
	}
	failed.Way += "--node-set-optional yes leaves the sets"
	return failed
}

// most is the room of the set that has most.
func (c *chooser) most() (room int) {
	for i := range c.sets.Sets {
		room = max(room, c.sets.Sets[i].Room)
	}
	return room
}

// largest tells of the set with most room.
func (c *chooser) largest(room string) string {
	if len(c.sets.Sets) == 0 {
		return " (no node is in one)"
	}
	most := &c.sets.Sets[0]
	for i := range c.sets.Sets {
		if s := &c.sets.Sets[i]; s.Room > most.Room {
			most = s
		}
	}
	var names []string
	for _, k := range most.Members {
		names = append(names, c.candidates[c.nodes[k]].Name)
	}
	return fmt.Sprintf(" (largest: %s, "+room+" on %s)", most.Name, most.Room, hostlist.Brief(names))
}
