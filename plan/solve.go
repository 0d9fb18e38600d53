package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/sort"
)

// A problem is a request with what is known of its candidates.
type problem struct {
	req        job.Request
	candidates []candidate
	turns      []int // indices into candidates, as the user gave them; some may repeat
	of         []int // the candidate of a node of the request
	mode       sort.Mode
	waited     time.Duration // since the first attempt at the head of the queue
	regions    []string      // those that the job may enter; nil: there are none
	closed     []job.Note    // the others of the domain
}

// A solution is what the stages made of a problem, as far as they came.
type solution struct {
	usable    [][]bool // by part of the job and candidate
	rejected  []job.Note
	sets      *nodeset.Chooser // the sets there were; nil: none were looked for
	lots      []lot            // what was chosen
	left      bool             // no set holds the job, which may go without
	placement *placement
}

// solve finds a place for each rank. With an error nothing is placed.
func (p problem) solve() (solution, *Error) {
	var found solution
	found.usable, found.rejected = judge(p.req, p.candidates, p.turns)
	if failed := p.tooFew(); failed != nil {
		return found, failed
	}
	if failed := p.missing(found.rejected); failed != nil {
		return found, failed
	}
	failed := p.choose(&found)
	return found, failed
}

// leftOutCodes are the reasons by which the user asks that a host be left out: --exclude, and --nodetype.
var leftOutCodes = []string{"out", "hardware"}

// missing is the refusal if a host that the user named for a job without -n can take no rank
// (PLACE-1). Otherwise the job would run on the others, and nobody would notice.
func (p problem) missing(rejected []job.Note) *Error {
	if !p.req.AllHosts || p.req.Skip || len(p.req.Apps) > 1 || p.req.Apps[0].N > 0 || p.req.Apps[0].Soft != nil || p.req.RankFile != nil {
		return nil
	}
	var names []string
	for _, note := range rejected {
		if !slices.Contains(leftOutCodes, note.Code) {
			names = append(names, note.Node)
		}
	}
	if len(names) == 0 || len(names) == len(distinct(p.turns, len(p.candidates))) {
		return nil // if no host can take ranks, that is what the refusal says
	}
	which := hostlist.Brief(names)
	way := "say how many ranks (-n), or leave out " + which
	if !p.req.Crowd && !p.req.Forbid && p.sharing().fits() {
		way += "; or share CPUs (--oversubscribe)"
	}
	return &Error{Code: NoNodes, Text: fmt.Sprintf("without -n each named host gets ranks; %s can take none now", which), Way: way}
}

// sharing is the problem in which ranks may share CPUs with each other and with jobs that share
// too (--oversubscribe). CPUs that nobody holds are given first.
func (p problem) sharing() problem {
	p.req.Crowd = true
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		if s := &p.candidates[i]; !s.NoOverbook {
			s.crowded = true
			s.Mine = idset.Of(slices.Concat(s.Mine, s.Shared)...)
			s.count()
		}
	}
	return p
}

// fits reports whether a problem has a solution.
func (p problem) fits() bool {
	_, failed := p.solve()
	return failed == nil
}

// idle is the problem as it would be if every node of the list were idle and reachable (6.2).
// In which order they are filled makes no difference to whether there is room.
func (p problem) idle() problem {
	p.mode, p.waited = sort.None, nodeset.MaxTime
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		p.candidates[i] = p.candidates[i].ideal()
	}
	return p
}

// mayEverFit is fits for idle nodes. One whose size nobody has seen may be as large as it
// takes, and have as many GPUs.
func (p problem) mayEverFit() bool {
	gpus := slices.ContainsFunc(p.req.Apps, func(app job.App) bool { return wantedGPUs(app) > 0 })
	unseen := func(turn int) bool {
		c := p.candidates[turn]
		if c.unsure {
			c.shut = ""
			return allowed(p.req, &c)
		}
		sizeless := len(c.Topology.Cores) == 0 && (c.Slots == 0 || gpus || confines(p.req))
		return (sizeless || p.mayBeInSet(&c)) && allowed(p.req, &c)
	}
	return p.tooFew() == nil && (slices.ContainsFunc(p.turns, unseen) || p.fits())
}

// mayBeInSet reports whether nobody knows in which sets a candidate is.
func (p problem) mayBeInSet(c *candidate) bool {
	set := &p.req.Set
	return set.Policy != "" && set.Kind.Probed && c.absent && !c.Attribute(set.Attribute).Known()
}

// ordered are turns in the order in which their nodes are filled: region by region, inside of one by
// tier, and in each of those by the key.
func ordered(candidates []candidate, turns []int, mode sort.Mode) []int {
	nodes := make([]job.Node, len(turns))
	places := make([]int, len(turns))
	for k, turn := range turns {
		nodes[k], places[k] = candidates[turn].Node, k
	}
	order := sort.Turns(nodes, places, mode)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(nodes[a].Tier, nodes[b].Tier) })
	for k, place := range order {
		order[k] = turns[place]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(candidates[a].region, candidates[b].region) })
	return order
}
