package plan

import (
	"math"
	"slices"

	"remshell/job"
	"remshell/pin"
	"remshell/sort"
)

// An assignment says on which candidate one rank runs, and to which app the rank belongs.
type assignment struct{ candidate, app int }

// A placement holds the state needed while the ranks of a job are placed on candidates, one rank after the other.
type placement struct {
	req         job.Request
	candidates  []candidate
	candidateOf []int // candidate by index into Request.Nodes
	entries     []int // host entries in the order in which they are filled; candidates may repeat
	maxThreads  int   // the largest number of CPUs per rank in the job (TPP, 5.7)

	nextEntry    int          // index of the host entry at which placement continues
	freeSlots    []int        // free slots, by candidate
	freeGPUs     []int        // free GPUs, by candidate
	ranksOn      []int        // ranks of this job, by candidate
	assigned     []assignment // by rank
	sharesCPUs   bool         // ranks share CPUs
	mustNotShare bool         // ranks must not share CPUs
	groupRanks   int          // ranks of the group that is being placed; 0 means all of the job

	layout       *layoutState // nil if there is no layout to follow
	portionCache portionSet

	owners       map[int]*cpuOwners // by candidate; used with a rank file
	fixedCPUs    map[int][]int      // by rank: the CPUs that the rank file names
	fixedRanksOn map[[2]int]int     // number of ranks placed by the rank file, by app and candidate
}

func newPlacement(req job.Request, candidates []candidate, of, order []int) *placement {
	s := &placement{req: req, candidates: candidates, candidateOf: of, entries: order, freeSlots: make([]int, len(candidates)), freeGPUs: make([]int, len(candidates)), ranksOn: make([]int, len(candidates)), portionCache: make(portionSet)}
	for i := range candidates {
		s.freeSlots[i], s.freeGPUs[i] = candidates[i].free, len(candidates[i].gpus)
	}
	for _, app := range req.Apps {
		s.maxThreads = max(s.maxThreads, app.CPUsPerRank, 1)
	}
	if !s.hasFixedCPUs() && s.followsLayout() {
		s.layout = newLayoutState(s)
	}
	return s
}

// placeGroups places the ranks on placement groups, one group after the other, and in each group in the order of its
// nodes. It places all ranks or returns an error. No node may be in two groups.
func (s *placement) placeGroups(groups []placementGroup, usable [][]bool, mode sort.Mode) *Error {
	var order []int
	for _, l := range groups {
		s.entries, s.nextEntry, s.groupRanks = l.entries, 0, l.ranks
		if !l.inFillOrder {
			s.entries = fillOrder(s.candidates, l.entries, mode)
		}
		if failed := s.placeApps(usable); failed != nil {
			return failed
		}
		order = append(order, s.entries...)
	}
	s.entries = order
	return nil
}

// placeApps places the ranks of all apps of the job, in order (placement.md 5.7). It places all ranks or
// returns an error.
func (s *placement) placeApps(usable [][]bool) *Error {
	if s.req.FixedPlacements != nil {
		return s.placeByRankFile(usable)
	}
	for a := range s.req.Apps {
		if err := s.placeApp(a, usable[a]); err != nil {
			return err
		}
	}
	return nil
}

// excludeUsedNodes returns the candidates that the next app may use. With NoSharedHosts, candidates with
// ranks of earlier apps are left out.
func (s *placement) excludeUsedNodes(usable []bool) []bool {
	if !s.req.NoSharedHosts || len(s.assigned) == 0 {
		return usable
	}
	usable = slices.Clone(usable)
	for _, a := range s.assigned {
		usable[a.candidate] = false
	}
	return usable
}

// placeApp places the ranks of app a on the candidates that the app may use.
func (s *placement) placeApp(a int, usable []bool) *Error {
	s.confineApp(s.req.Apps[a].NUMA)
	app := s.req.Apps[a]
	if s.groupRanks > 0 {
		app.N = s.groupRanks
	}
	area := s.eligibleFor(app, s.excludeUsedNodes(usable))
	if len(area.candidates) == 0 {
		if all := s.eligibleFor(app, usable); len(all.candidates) > 0 {
			return refuseSharedNodes(len(s.req.Apps), all)
		}
		if failed := s.refuseNoGPUs(app); failed != nil {
			return failed
		}
		return refuseNoNode(app, len(s.req.Apps) == 1)
	}
	n := s.rankCount(area)
	if n == 0 {
		return s.refuseSoft(area)
	}
	s.allowMoreRounds(area, n)
	first := len(s.assigned)
	if err := s.placeRanks(area, a, n); err != nil {
		return err
	}
	s.renumberRanks(first)
	return s.refuseOverload()
}

// placeRanks places n ranks of app a.
func (s *placement) placeRanks(area *eligibleNodes, a, n int) *Error {
	if area.app.ExactPerNode > 0 {
		return s.placeShaped(area, a, n)
	}
	quota, err := s.quotas(area, n)
	if err == nil {
		s.placeByQuota(area, a, n, quota)
	}
	return err
}

// placeByQuota places n ranks of app a. quota contains the maximum number of ranks for each candidate.
func (s *placement) placeByQuota(area *eligibleNodes, a, n int, quota []int) {
	switch {
	case s.req.RoundRobin:
		s.placeCyclic(a, n, quota)
	case s.req.Layout.Map.Span:
		s.placeAcrossNodes(area, a, n, quota)
	default:
		s.fillNodes(a, n, quota)
	}
}

// quotas returns the maximum number of ranks for each candidate. If ranks do not share CPUs, this is the capacity
// (placement.md 5.2). If ranks share CPUs in round-robin order, this is the candidate's limit (placement.md 5.5).
// Otherwise this is a share of n in proportion to the node's size (placement.md 5.4).
func (s *placement) quotas(a *eligibleNodes, n int) ([]int, *Error) {
	if n <= a.freeCapacity() {
		return a.capacity, nil
	}
	if failed := s.refuseFewGPUs(a, n); failed != nil {
		return nil, failed
	}
	if !s.mayShareCPUs(a, n) {
		return nil, s.refuseByPolicy(a, n, s.refuseTooFewSlots(a, n))
	}
	s.sharesCPUs = true
	bounds := s.rankBounds(a, n)
	if sum(bounds) < n {
		return nil, s.refuseByLimits(a, n, sum(bounds))
	}
	if s.req.RoundRobin {
		return bounds, nil
	}
	return s.proportionalShares(a, n, bounds), nil
}

// eligibleNodes holds the candidates that one app may use, and their capacities for this app.
type eligibleNodes struct {
	app        job.App
	candidates []int // in the order in which they are filled, each once
	names      []string
	slots      int      // slots of all candidates, free or not
	limits     []int    // by candidate: most ranks, for reasons other than CPUs
	limitNames []string // by candidate: the name of that limit
	capacity   []int    // by candidate: most ranks without shared CPUs
}

func (s *placement) eligibleFor(app job.App, usable []bool) *eligibleNodes {
	a := &eligibleNodes{app: app, limits: make([]int, len(s.candidates)), limitNames: make([]string, len(s.candidates)), capacity: make([]int, len(s.candidates))}
	for _, i := range distinctCandidates(s.entries, len(s.candidates)) {
		if !usable[i] {
			continue
		}
		a.candidates = append(a.candidates, i)
		a.names = append(a.names, s.candidates[i].Name)
		a.slots += s.candidates[i].SlotCount()
		a.limits[i], a.limitNames[i] = s.rankLimit(i, app)
		a.capacity[i] = s.capacityOf(i, a)
	}
	if s.followsTaskGrant(app) {
		for _, i := range a.candidates {
			a.capacity[i] = min(a.capacity[i], max(0, s.candidates[i].Tasks-s.ranksOn[i]))
		}
	}
	return a
}

// followsTaskGrant reports whether the number of tasks that the batch system has granted on a node limits the number of
// an app's ranks there. It does if the batch system has granted numbers of tasks and the user has not given a number of
// ranks (rule RM-6).
func (s *placement) followsTaskGrant(app job.App) bool {
	return app.N == 0 && app.Soft == nil && app.PerNode == 0 && s.req.Layout.Map.PerObject == 0 &&
		slices.ContainsFunc(s.candidates, func(c candidate) bool { return c.Tasks > 0 })
}

// capacityOf returns how many ranks of an app fit in the free slots of candidate i.
func (s *placement) capacityOf(i int, a *eligibleNodes) int {
	width := max(1, a.app.CPUsPerRank)
	capacity := min(s.ranksInSlots(i, s.freeSlots[i], width), a.limits[i])
	switch l := s.layout; {
	case l == nil:
	case s.candidates[i].Slots == 0:
		capacity = min(capacity, l.slotPools[i].Capacity(width, l.pprRounds))
	case l.Map.PerObject > 0:
		capacity = min(capacity, l.slotPools[i].CapacityByLimit(l.pprRounds))
	}
	return capacity
}

// rankLimit returns the maximum number of ranks that candidate i may have because of limits other than CPUs
// (min(M-P, ppn) in placement.md 5.1). These limits are maxproc, max_slots, memory, NUMA, -ppn and GPUs. limitName
// is the name of the smallest limit, or "" if there is no limit.
func (s *placement) rankLimit(i int, app job.App) (limit int, limitName string) {
	n, limit := &s.candidates[i], math.MaxInt
	tighten := func(most int, name string) {
		if most < limit {
			limit, limitName = max(0, most), name
		}
	}
	if n.MaxProcs != nil {
		name := "maxproc of the cluster file"
		if n.maxProcsFromNode {
			name = "the administrator's maxproc"
		}
		tighten(*n.MaxProcs-n.Ranks-s.ranksOn[i], name)
	}
	if n.MaxSlots > 0 {
		tighten(n.MaxSlots-s.ranksOn[i], "max_slots of the host file")
	}
	if size := s.req.Memory; size > 0 && n.Memory.Available > 0 {
		tighten(int(n.Memory.Available/size)-s.ranksOn[i], "--mem-per-rank")
	}
	if left, known := n.gangMemoryLeft(); known && s.req.Gang && s.req.Memory > 0 {
		tighten(int(left/s.req.Memory)-s.ranksOn[i], "the memory that other gangs leave for --mem-per-rank")
	}
	if s.req.HugePages == job.HugePagesRequired && n.Memory.HugePages.Probed {
		tighten(int(n.Memory.HugePages.Capacity(s.req.Memory))-s.ranksOn[i], "the number of huge pages for --mem-per-rank")
	}
	if app.NUMA.IsSet() && s.layout != nil && s.layout.slotPools[i] != nil {
		tighten(s.layout.slotPools[i].Capacity(max(1, app.CPUsPerRank), 1), app.NUMA.Option())
	}
	if app.PerNode > 0 {
		tighten(app.PerNode, "-ppn")
	}
	if want := gpusPerRank(app); want > 0 {
		tighten(s.freeGPUs[i]/want, gpuOption(want))
	}
	return limit, limitName
}

// ranksInSlots returns how many ranks fit into the given number of slots of candidate i, if each rank has the given
// number of threads and needs one slot for each thread.
func (s *placement) ranksInSlots(i, slots, threads int) int {
	if s.req.LocalOnly && s.candidates[i].Slots == 0 {
		threads = min(threads, max(1, s.candidates[i].SlotCount()))
	}
	return max(0, slots) / threads
}

// freeCapacity returns how many ranks fit without sharing CPUs (U in placement.md 5.1).
func (a *eligibleNodes) freeCapacity() int { return sum(a.capacity) }

// rankCount returns the number of ranks of an app. If the user has not given a number (rule PLACE-1), the number
// follows from --shape, --map-by ppr or -ppn, or otherwise from the free slots of the nodes. If the user has given
// several numbers (-soft), rankCount returns the largest one that fits, or 0 if none fits even with shared CPUs.
func (s *placement) rankCount(a *eligibleNodes) int {
	if a.app.N > 0 {
		return a.app.N
	}
	if a.app.Soft != nil {
		capacity := a.freeCapacity()
		i := slices.IndexFunc(a.app.Soft, func(n int) bool { return n <= capacity })
		switch {
		case i < 0 && s.mayShareCPUs(a, a.app.Soft[len(a.app.Soft)-1]):
			i = len(a.app.Soft) - 1 // CPUs may be shared
		case i < 0:
			return 0
		}
		return a.app.Soft[i]
	}
	if a.app.ExactPerNode > 0 {
		return max(a.app.ExactPerNode, a.shapeCapacity())
	}
	if each := s.req.Layout.Map.PerObject; each > 0 {
		n := 0
		for _, i := range a.candidates {
			n += each * s.layout.slotPools[i].CountObjects()
		}
		return n
	}
	if a.app.PerNode > 0 {
		return a.app.PerNode * len(a.candidates)
	}
	n := 0
	for _, i := range a.candidates {
		n += max(a.capacity[i], s.ranksInWrittenSlots(i, a))
	}
	return max(1, n)
}

// ranksInWrittenSlots returns how many ranks fit into the slots that the user has written for a host (HOST:N), even if
// other jobs use the host's CPUs. It returns 0 if some listed hosts may remain unused, because a host may then get
// fewer ranks.
func (s *placement) ranksInWrittenSlots(i int, a *eligibleNodes) int {
	if !s.req.LocalOnly && (!s.req.AllHosts || s.req.SkipUnreachable) {
		return 0
	}
	return min(a.limits[i], s.ranksInSlots(i, s.candidates[i].Slots, max(1, a.app.CPUsPerRank)))
}

// fillNodes places n ranks in the order of the host entries. It uses all slots of one node before it
// continues with the next.
func (s *placement) fillNodes(app, n int, quota []int) {
	for {
		i := s.entries[s.nextEntry]
		take := min(quota[i], n)
		s.putRanks(app, i, take)
		quota[i] -= take
		if n -= take; n == 0 {
			return
		}
		s.nextEntry = (s.nextEntry + 1) % len(s.entries)
	}
}

// placeCyclic places ranks on the host entries of one region in turn, one rank (or as many as --map-by node:N says) at
// a time. When the region is full, it continues with the next region. If CPUs are shared, all regions are treated as
// one (which-hosts.md 10).
func (s *placement) placeCyclic(app, n int, quota []int) {
	for n > 0 {
		from, to := s.regionEntries()
		capacity := 0
		for _, i := range distinctCandidates(s.entries[from:to], len(s.candidates)) {
			capacity += quota[i]
		}
		take := min(n, capacity)
		s.cycleEntries(app, take, quota, from, to)
		if n -= take; n > 0 {
			s.nextEntry = to % len(s.entries)
		}
	}
}

// regionEntries returns the range [start, end) of host entries whose nodes are in the region of the entry at which
// placement continues. If regions do not matter, it returns all entries.
func (s *placement) regionEntries() (start, end int) {
	if s.sharesCPUs || isContiguous(s.req) {
		return 0, len(s.entries)
	}
	same := func(t int) bool {
		return s.candidates[s.entries[t]].regionNumber == s.candidates[s.entries[s.nextEntry]].regionNumber
	}
	for start = s.nextEntry; start > 0 && same(start-1); {
		start--
	}
	for end = s.nextEntry + 1; end < len(s.entries) && same(end); {
		end++
	}
	return start, end
}

// cycleEntries places n ranks on the host entries [start, end) in turn, one rank (or as many as --map-by node:N says)
// at a time. After each round it removes the entries of full nodes, so that the total time is proportional to ranks
// plus entries.
func (s *placement) cycleEntries(app, n int, quota []int, start, end int) {
	mapping, stride := s.req.Layout.Map, 1
	if mapping.Level == pin.ByNode {
		stride = max(1, mapping.Count)
	}
	nodeOfTurn := mapping.Turn()
	open := make([]int, end-start) // entries whose nodes may have room, as the turns of a round count them
	for k := range open {
		open[k] = start + (s.nextEntry-start+k)%len(open)
	}
	for round := 0; n > 0; round++ {
		for k := range open {
			entry := open[nodeOfTurn(round, k, len(open))]
			i := s.entries[entry]
			if ranks := min(stride, quota[i], n); ranks > 0 {
				s.putRanks(app, i, ranks)
				quota[i] -= ranks
				n -= ranks
				s.nextEntry = entry + 1
			}
		}
		open = slices.DeleteFunc(open, func(entry int) bool { return quota[s.entries[entry]] == 0 })
	}
	if s.nextEntry == end {
		s.nextEntry = start
	}
}

// putRanks places the given number of ranks of an app on candidate i.
func (s *placement) putRanks(app, i, ranks int) {
	for range ranks {
		if s.layout != nil {
			s.layout.takeSlots(i, max(1, s.req.Apps[app].CPUsPerRank))
		}
		s.assigned = append(s.assigned, assignment{i, app})
	}
	s.ranksOn[i] += ranks
	s.freeSlots[i] -= ranks * max(1, s.req.Apps[app].CPUsPerRank)
	s.freeGPUs[i] -= ranks * gpusPerRank(s.req.Apps[app])
}

// putRank places one rank on candidate i. The caller has already taken the rank's slots.
func (s *placement) putRank(app, i int) {
	s.assigned = append(s.assigned, assignment{i, app})
	s.ranksOn[i]++
	s.freeSlots[i] -= max(1, s.req.Apps[app].CPUsPerRank)
	s.freeGPUs[i] -= gpusPerRank(s.req.Apps[app])
}

// candidateOfRank returns the candidate of every rank.
func (s *placement) candidateOfRank() []int {
	candidates := make([]int, len(s.assigned))
	for i, assigned := range s.assigned {
		candidates[i] = assigned.candidate
	}
	return candidates
}

// unboundPortion is the RankResources of ranks that have not been bound yet, and of ranks on a node without
// slots.
var unboundPortion = new(job.RankResources)

// nodePlans groups the ranks by node, in the order in which the nodes were filled.
func (s *placement) nodePlans() []job.NodePlan {
	var plans []job.NodePlan
	at := make([]int, len(s.candidates)) // index in plans plus 1; 0 if there is none yet
	for rank, assigned := range s.assigned {
		if at[assigned.candidate] == 0 {
			n := &s.candidates[assigned.candidate]
			ranks := make([]job.RankPlan, 0, s.ranksOn[assigned.candidate])
			plans = append(plans, job.NodePlan{Node: n.snapshotIndex, Name: n.Name, ID: n.ID, Ranks: ranks})
			at[assigned.candidate] = len(plans)
		}
		p := &plans[at[assigned.candidate]-1]
		p.Ranks = append(p.Ranks, job.RankPlan{Rank: rank, Local: len(p.Ranks), App: assigned.app, RankResources: unboundPortion})
	}
	return plans
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
