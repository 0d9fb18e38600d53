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
	req           job.Request
	candidates    []candidate
	entries       []int // indices into candidates, as the user gave them; some may repeat
	candidateOf   []int // the candidate of a node of the request
	sortMode      sort.Mode
	waited        time.Duration // since the first attempt at the head of the queue
	openRegions   []string      // those that the job may enter; nil: there are none
	closedRegions []job.Note    // the others of the domain
}

// A solution is what the stages made of a problem, as far as they came.
type solution struct {
	usable     [][]bool // by part of the job and candidate
	rejected   []job.Note
	setChooser *nodeset.Chooser // the sets there were; nil: none were looked for
	groups     []placementGroup // what was chosen
	withoutSet bool             // no set holds the job, which may go without
	placement  *placement
}

// solve finds a place for each rank. With an error nothing is placed.
func (p problem) solve() (solution, *Error) {
	var found solution
	found.usable, found.rejected = selectCandidates(p.req, p.candidates, p.entries)
	if failed := p.refuseTooFewNodes(); failed != nil {
		return found, failed
	}
	if failed := p.refuseUnusedHost(found.rejected); failed != nil {
		return found, failed
	}
	failed := p.chooseNodes(&found)
	return found, failed
}

// excludedCodes are the reasons by which the user asks that a host be left out: --exclude, and --nodetype.
var excludedCodes = []string{"out", "hardware"}

// refuseUnusedHost is the refusal if a host that the user named for a job without -n can take no rank
// (PLACE-1). Otherwise the job would run on the others, and nobody would notice.
func (p problem) refuseUnusedHost(rejected []job.Note) *Error {
	if !p.req.AllHosts || p.req.SkipUnreachable || len(p.req.Apps) > 1 || p.req.Apps[0].N > 0 || p.req.Apps[0].Soft != nil || p.req.FixedPlacements != nil {
		return nil
	}
	var names []string
	for _, note := range rejected {
		if !slices.Contains(excludedCodes, note.Code) {
			names = append(names, note.Node)
		}
	}
	if len(names) == 0 || len(names) == len(distinctCandidates(p.entries, len(p.candidates))) {
		return nil // if no host can take ranks, that is what the refusal says
	}
	which := hostlist.FoldBrief(names)
	way := "say how many ranks (-n), or leave out " + which
	if !p.req.ShareOwnCPUs && !p.req.NoOversubscribe && p.withSharedCPUs().hasSolution() {
		way += "; or share CPUs (--oversubscribe)"
	}
	return &Error{Code: CodeNoNodes, Text: fmt.Sprintf("without -n each named host gets ranks; %s can take none now", which), Remedy: way}
}

// withSharedCPUs is the problem in which ranks may share CPUs with each other and with jobs that share
// too (--oversubscribe). CPUs that nobody holds are given first.
func (p problem) withSharedCPUs() problem {
	p.req.ShareOwnCPUs = true
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		if s := &p.candidates[i]; !s.NoOverbook {
			s.sharesOwnCPUs = true
			s.ShareableCPUs = idset.New(slices.Concat(s.ShareableCPUs, s.SharedCPUs)...)
			s.countFree()
		}
	}
	return p
}

// hasSolution reports whether a problem has a solution.
func (p problem) hasSolution() bool {
	_, failed := p.solve()
	return failed == nil
}

// withIdleNodes is the problem as it would be if every node of the list were idle and reachable (6.2).
// In which order they are filled makes no difference to whether there is room.
func (p problem) withIdleNodes() problem {
	p.sortMode, p.waited = sort.None, nodeset.MaxTime
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		p.candidates[i] = p.candidates[i].whenIdle()
	}
	return p
}

// mayFitWhenIdle is fits for idle nodes. One whose size nobody has seen may be as large as it
// takes, and have as many GPUs.
func (p problem) mayFitWhenIdle() bool {
	gpus := slices.ContainsFunc(p.req.Apps, func(app job.App) bool { return gpusPerRank(app) > 0 })
	unseen := func(turn int) bool {
		c := p.candidates[turn]
		if c.mayOpenLater {
			c.closedReason = ""
			return mayBeUsed(p.req, &c)
		}
		sizeless := len(c.Topology.Cores) == 0 && (c.Slots == 0 || gpus || confinesToNUMA(p.req))
		return (sizeless || p.mayBeInSet(&c)) && mayBeUsed(p.req, &c)
	}
	return p.refuseTooFewNodes() == nil && (slices.ContainsFunc(p.entries, unseen) || p.hasSolution())
}

// mayBeInSet reports whether nobody knows in which sets a candidate is.
func (p problem) mayBeInSet(c *candidate) bool {
	set := &p.req.NodeSet
	return set.Policy != "" && set.Kind.Probed && c.unreachable && !c.Attribute(set.Attribute).Known()
}

// fillOrder are turns in the order in which their nodes are filled: region by region, inside of one by
// tier, and in each of those by the key.
func fillOrder(candidates []candidate, turns []int, mode sort.Mode) []int {
	nodes := make([]job.Node, len(turns))
	places := make([]int, len(turns))
	for k, turn := range turns {
		nodes[k], places[k] = candidates[turn].Node, k
	}
	order := sort.OrderEntries(nodes, places, mode)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(nodes[a].Tier, nodes[b].Tier) })
	for k, place := range order {
		order[k] = turns[place]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(candidates[a].regionNumber, candidates[b].regionNumber) })
	return order
}
