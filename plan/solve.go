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

// A problem is a request together with the nodes from which to choose.
type problem struct {
	req           job.Request
	candidates    []candidate
	entries       []int // host entries as indices into candidates, in the user's order; may repeat
	candidateOf   []int // candidate by index into Request.Nodes
	sortMode      sort.Mode
	waited        time.Duration // since the first attempt at the head of the queue
	openRegions   []string      // regions that the job may enter; nil if the cluster has none
	closedRegions []job.Note    // the other regions of the domain
}

// A solution holds the results of the stages of planning that have succeeded.
type solution struct {
	usable     [][]bool // by app and candidate
	rejected   []job.Note
	setChooser *nodeset.Chooser // the node sets that were considered; nil if none
	groups     []placementGroup // the chosen nodes
	withoutSet bool             // no set can run the job, and the job may run without a set
	placement  *placement
}

// solve places every rank of the job. If it returns an error, no rank is placed.
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

// excludedCodes are the rejection codes of nodes that the user has excluded with --exclude or --nodetype.
var excludedCodes = []string{"out", "hardware"}

// refuseUnusedHost returns an error if a job without -n cannot use all hosts that the user named (rule PLACE-1).
// Otherwise the job would silently run on some of them.
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
		return nil // no host at all is another error
	}
	hosts := hostlist.FoldBrief(names)
	remedy := "give the number of ranks (-n), or leave out " + hosts
	if !p.req.ShareOwnCPUs && !p.req.NoOversubscribe && p.withSharedCPUs().hasSolution() {
		remedy += "; or share CPUs with --oversubscribe"
	}
	return &Error{Code: CodeNoNodes, Text: fmt.Sprintf("without -n, each host must get a rank, but there is no room on %s now", hosts), Remedy: remedy}
}

// withSharedCPUs returns the problem with the option --oversubscribe set. Ranks may then share CPUs with each
// other, and with ranks of other jobs that have set this option. Ranks still use free CPUs first.
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

// hasSolution reports whether all ranks of the job can be placed.
func (p problem) hasSolution() bool {
	_, failed := p.solve()
	return failed == nil
}

// withIdleNodes returns the problem as it would be if every node were idle and mpiexec could connect to it
// (placement.md 6.2). It drops the sort key, which does not affect whether the job fits.
func (p problem) withIdleNodes() problem {
	p.sortMode, p.waited = sort.None, nodeset.MaxTime
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		p.candidates[i] = p.candidates[i].whenIdle()
	}
	return p
}

// mayFitWhenIdle reports whether the job might fit on idle nodes. A node of unknown size is assumed to have
// as many CPUs and GPUs as the job needs.
func (p problem) mayFitWhenIdle() bool {
	gpus := slices.ContainsFunc(p.req.Apps, func(app job.App) bool { return gpusPerRank(app) > 0 })
	unseen := func(entry int) bool {
		c := p.candidates[entry]
		if c.mayOpenLater {
			c.closedReason = ""
			return mayBeUsed(p.req, &c)
		}
		sizeless := len(c.Topology.Cores) == 0 && (c.Slots == 0 || gpus || confinesToNUMA(p.req))
		return (sizeless || p.mayBeInSet(&c)) && mayBeUsed(p.req, &c)
	}
	return p.refuseTooFewNodes() == nil && (slices.ContainsFunc(p.entries, unseen) || p.hasSolution())
}

// mayBeInSet reports whether an unreachable candidate might belong to a node set of the request. This is so if the
// candidate's value of the attribute that defines the node sets is unknown.
func (p problem) mayBeInSet(c *candidate) bool {
	set := &p.req.NodeSet
	return set.Policy != "" && set.Kind.Probed && c.unreachable && !c.Attribute(set.Attribute).Known()
}

// fillOrder sorts host entries in the order in which their nodes get ranks. The entries are sorted by region, then by
// tier (job.Node), and then by the sort key.
func fillOrder(candidates []candidate, entries []int, mode sort.Mode) []int {
	nodes := make([]job.Node, len(entries))
	positions := make([]int, len(entries))
	for k, entry := range entries {
		nodes[k], positions[k] = candidates[entry].Node, k
	}
	order := sort.OrderEntries(nodes, positions, mode)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(nodes[a].Tier, nodes[b].Tier) })
	for k, position := range order {
		order[k] = entries[position]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(candidates[a].regionNumber, candidates[b].regionNumber) })
	return order
}
