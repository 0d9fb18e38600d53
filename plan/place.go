package plan

import (
	"math"
	"slices"

	"remshell/job"
	"remshell/pin"
	"remshell/sort"
)

// An assignment is where one rank goes: a candidate, and the app it runs.
type assignment struct{ candidate, app int }

// A placement is the ranks of a job that have been placed so far.
type placement struct {
	req         job.Request
	candidates  []candidate
	candidateOf []int // candidate of a node of the request
	entries     []int // turns in filling order; candidates may repeat
	maxThreads  int   // the largest TPP of the job (5.7)

	nextEntry    int          // the turn at which the walk goes on
	freeSlots    []int        // slots left, by candidate
	freeGPUs     []int        // GPUs left, by candidate
	ranksOn      []int        // ranks of this job, by candidate
	assigned     []assignment // by rank
	sharesCPUs   bool         // ranks share CPUs
	mustNotShare bool         // they must not
	groupRanks   int          // of the lot that is being filled; 0: all of the job

	layout       *layoutState // nil: there is no layout to follow
	portionCache portionSet

	owners       map[int]*cpuOwners // by candidate, of ranks that were told where to go
	fixedCPUs    map[int][]int      // the CPUs of a rank that was told
	fixedRanksOn map[[2]int]int     // their number, by app and candidate
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

// placeGroups places the ranks on the lots, one after the other, each in the order of its nodes: all or
// nothing. Lots share no node.
func (s *placement) placeGroups(lots []placementGroup, usable [][]bool, mode sort.Mode) *Error {
	var order []int
	for _, l := range lots {
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

// placeApps places every part of the job, in order, on one state (5.7): all or nothing.
func (s *placement) placeApps(usable [][]bool) *Error {
	if s.req.FixedPlacements != nil {
		return s.placeByRankFile(usable)
	}
	for a := range s.req.Apps {
		if err := s.placeApp(a, s.excludeUsedNodes(usable[a])); err != nil {
			return err
		}
	}
	return nil
}

// excludeUsedNodes are the candidates that a section may use where none shares a node with another.
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

// placeApp places the ranks of one app on the candidates it may use.
func (s *placement) placeApp(a int, usable []bool) *Error {
	s.confineApp(s.req.Apps[a].NUMA)
	app := s.req.Apps[a]
	if s.groupRanks > 0 {
		app.N = s.groupRanks
	}
	area := s.eligibleFor(app, usable)
	if len(area.candidates) == 0 {
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

// placeRanks places n ranks of an app.
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

// placeByQuota puts n ranks of an app on candidates, none more than its quota.
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

// quotas is the most ranks each candidate takes of n: its room while nobody has to share
// a CPU (5.2), else its share of them all or, in turns, its bound (5.4, 5.5).
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

// An eligibleNodes is the candidates that one app may use, and the room there is.
type eligibleNodes struct {
	app        job.App
	candidates []int // in filling order, each once
	names      []string
	slots      int      // slots of all of them, free or not
	limits     []int    // most ranks, by candidate, for other reasons than CPUs
	limitNames []string // what that limit is called
	capacity   []int    // most ranks, by candidate, that share no CPU
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

// followsTaskGrant reports whether an app goes where a batch system meant its tasks to: nobody has said
// otherwise, and it has counted them (RM-6).
func (s *placement) followsTaskGrant(app job.App) bool {
	return app.N == 0 && app.Soft == nil && app.PerNode == 0 && s.req.Layout.Map.PerObject == 0 &&
		slices.ContainsFunc(s.candidates, func(c candidate) bool { return c.Tasks > 0 })
}

// capacityOf is how many ranks of an app find free slots on a candidate.
func (s *placement) capacityOf(i int, a *eligibleNodes) int {
	width := max(1, a.app.CPUsPerRank)
	room := min(s.ranksInSlots(i, s.freeSlots[i], width), a.limits[i])
	switch l := s.layout; {
	case l == nil:
	case s.candidates[i].Slots == 0:
		room = min(room, l.slotPools[i].Capacity(width, l.pprRounds))
	case l.Map.PerObject > 0:
		room = min(room, l.slotPools[i].CapacityByLimit(l.pprRounds))
	}
	return room
}

// rankLimit is what maxproc, max_slots, ppn and GPUs leave of a candidate, min(M-P, ppn) in 5.1,
// and which of them that is.
func (s *placement) rankLimit(i int, app job.App) (limit int, by string) {
	n, limit := &s.candidates[i], math.MaxInt
	tighten := func(most int, name string) {
		if most < limit {
			limit, by = max(0, most), name
		}
	}
	if n.MaxProcs != nil {
		name := "maxproc of the cluster file"
		if n.maxProcsFromNode {
			name = "maxproc of its node.toml"
		}
		tighten(*n.MaxProcs-n.Ranks-s.ranksOn[i], name)
	}
	if n.MaxSlots > 0 {
		tighten(n.MaxSlots-s.ranksOn[i], "max_slots of the host file")
	}
	if size := s.req.Memory; size > 0 && n.Memory.Available > 0 {
		tighten(int(n.Memory.Available/size)-s.ranksOn[i], "--mem-per-rank")
	}
	if s.req.HugePages == job.HugePagesRequired && n.Memory.HugePages.Probed {
		tighten(int(n.Memory.HugePages.Capacity(s.req.Memory))-s.ranksOn[i], "--mem-per-rank, in huge pages,")
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
	return limit, by
}

// ranksInSlots is how many ranks of so many threads a number of slots holds.
func (s *placement) ranksInSlots(i, slots, threads int) int {
	if s.req.LocalOnly && s.candidates[i].Slots == 0 {
		threads = min(threads, max(1, s.candidates[i].SlotCount()))
	}
	return max(0, slots) / threads
}

// freeCapacity is U of 5.1.
func (a *eligibleNodes) freeCapacity() int { return sum(a.capacity) }

// rankCount is the number of ranks; when the user gave none (PLACE-1), the limit on
// every node, else every slot that is left. It is 0 if there is a choice, and all of it
// too large.
func (s *placement) rankCount(a *eligibleNodes) int {
	if a.app.N > 0 {
		return a.app.N
	}
	if a.app.Soft != nil {
		room := a.freeCapacity()
		i := slices.IndexFunc(a.app.Soft, func(n int) bool { return n <= room })
		switch {
		case i < 0 && s.mayShareCPUs(a, a.app.Soft[len(a.app.Soft)-1]):
			i = len(a.app.Soft) - 1 // sharing CPUs is welcome
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

// ranksInWrittenSlots is how many ranks the slots hold that the user wrote down for a host (HOST:N), whoever has its CPUs now. It
// is 0 for a mere candidate, which may have fewer.
func (s *placement) ranksInWrittenSlots(i int, a *eligibleNodes) int {
	if !s.req.LocalOnly && (!s.req.AllHosts || s.req.SkipUnreachable) {
		return 0
	}
	return min(a.limits[i], s.ranksInSlots(i, s.candidates[i].Slots, max(1, a.app.CPUsPerRank)))
}

// fillNodes walks the turns and fills one node after the other.
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

// placeCyclic walks the turns of one region after the other again and again, one rank at each; where CPUs
// are shared, regions are one (which-hosts.md 10).
func (s *placement) placeCyclic(app, n int, quota []int) {
	for n > 0 {
		from, to := s.regionEntries()
		room := 0
		for _, i := range distinctCandidates(s.entries[from:to], len(s.candidates)) {
			room += quota[i]
		}
		take := min(n, room)
		s.cycleEntries(app, take, quota, from, to)
		if n -= take; n > 0 {
			s.nextEntry = to % len(s.entries)
		}
	}
}

// regionEntries is the turns of the region at which the walk goes on.
func (s *placement) regionEntries() (from, to int) {
	if s.sharesCPUs || isContiguous(s.req) {
		return 0, len(s.entries)
	}
	same := func(t int) bool {
		return s.candidates[s.entries[t]].regionNumber == s.candidates[s.entries[s.nextEntry]].regionNumber
	}
	for from = s.nextEntry; from > 0 && same(from-1); {
		from--
	}
	for to = s.nextEntry + 1; to < len(s.entries) && same(to); {
		to++
	}
	return from, to
}

// cycleEntries walks a stretch of turns again and again. Turns of full nodes are taken out of the ring, so
// that a walk costs no more than its ranks and turns.
func (s *placement) cycleEntries(app, n int, quota []int, from, to int) {
	turns := to - from
	next := make([]int, turns)
	for t := range next {
		next[t] = (t + 1) % turns
	}
	stride := 1
	if m := s.req.Layout.Map; m.Level == pin.ByNode {
		stride = max(1, m.Count)
	}
	t := s.nextEntry - from
	last := (t + turns - 1) % turns
	for n > 0 {
		i := s.entries[from+t]
		if quota[i] == 0 {
			next[last] = next[t]
			t = next[t]
			continue
		}
		stay := min(stride, quota[i], n)
		s.putRanks(app, i, stay)
		quota[i] -= stay
		n -= stay
		s.nextEntry = from + (t+1)%turns
		last, t = t, next[t]
	}
}

// putRanks places ranks of an app on a candidate.
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

// putRank places one rank, which has its slots.
func (s *placement) putRank(app, i int) {
	s.assigned = append(s.assigned, assignment{i, app})
	s.ranksOn[i]++
	s.freeSlots[i] -= max(1, s.req.Apps[app].CPUsPerRank)
	s.freeGPUs[i] -= gpusPerRank(s.req.Apps[app])
}

// candidateOfRank is the candidate of every rank.
func (s *placement) candidateOfRank() []int {
	candidates := make([]int, len(s.assigned))
	for i, assigned := range s.assigned {
		candidates[i] = assigned.candidate
	}
	return candidates
}

// unboundPortion is the portion of ranks until they get one, and of those on a node without any slot.
var unboundPortion = new(job.RankResources)

// nodePlans gathers the ranks by node, in the order in which the nodes were filled.
func (s *placement) nodePlans() []job.NodePlan {
	var plans []job.NodePlan
	at := make([]int, len(s.candidates)) // index in plans, from 1
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
