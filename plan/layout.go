package plan

import (
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file follows --map-by, --rank-by and --bind-to (cli.md section 2), where they say
// more than placement.md has:
//
//	map     which node and which thing of it a rank goes to: pin.Pool, span
//	rank    which number it gets: rerank
//	bind    which CPUs it may run on: pin.Binder

// A layoutState is what a job with a layout knows beside the placement.
type layoutState struct {
	pin.Layout                     // of the job; see layoutOn
	slots          [][]pin.Unit    // by candidate
	slotPools      []*pin.Pool     // by candidate; nil: it is not used
	pprRounds      int             // how often ppr may be filled
	takenByRank    []pin.RankSlots // by rank
	sharesSlots    []bool          // by candidate: some ranks have the same slots
	confinedToNUMA bool            // ranks of some section stay inside of NUMA nodes
}

// layoutFor is what holds on a candidate: the binding that its entry has takes the place of the
// job's.
func layoutFor(n *candidate, l pin.Layout) pin.Layout {
	if n.Bind != nil {
		l.Bind = *n.Bind
	}
	return l
}

// bindingSource is the binding of a candidate as it was asked for.
func bindingSource(n *candidate, l pin.Layout) string {
	if n.Bind != nil {
		return "binding=" + n.Bind.Text
	}
	return "--bind-to " + l.Bind.Text
}

// followsLayout reports whether a layout has to be followed, at least on some candidate, or NUMA nodes
// minded.
func (s *placement) followsLayout() bool {
	return s.req.Layout.NeedsPool() || confinesToNUMA(s.req) ||
		slices.ContainsFunc(s.entries, func(i int) bool { return layoutFor(&s.candidates[i], s.req.Layout).NeedsPool() })
}

func newLayoutState(s *placement) *layoutState {
	l := &layoutState{Layout: s.req.Layout, slots: make([][]pin.Unit, len(s.candidates)), slotPools: make([]*pin.Pool, len(s.candidates)), pprRounds: 1, sharesSlots: make([]bool, len(s.candidates)), confinedToNUMA: confinesToNUMA(s.req)}
	for _, i := range distinctCandidates(s.entries, len(s.candidates)) {
		n := &s.candidates[i]
		cpuMap, _ := s.cpuMapFor(n)
		l.slots[i] = n.slotsInMapOrder(cpuMap)
		layout := layoutFor(n, l.Layout)
		if len(n.Topology.Cores) == 0 { // nobody has looked: what it lacks is not known
			layout = pin.Layout{}
		}
		busy := n.avoidClaimedCPUs(l.slots[i], busyForLayout(n, layout, s.ignoresOtherJobs()), n.free)
		l.slotPools[i] = l.newPool(n, l.slots[i], layout, busy, s.maxThreads)
	}
	return l
}

// busyForLayout are the slots of other jobs that a layout keeps off: all of them but, where others
// are no obstacle, if the layout names its CPUs.
func busyForLayout(n *candidate, l pin.Layout, others bool) pin.BusyUnits {
	if others && l.NamesCPUs() {
		return nil
	}
	return n.busy
}

// missingForLayout says what a node has not that the layout needs, after its name.
func missingForLayout(n *candidate, w *requirement) string {
	l := layoutFor(n, w.layout)
	if !l.NeedsPool() && l.Mem.Text == "" || len(n.Topology.Cores) == 0 {
		return ""
	}
	if n.NoMemBind && l.Mem.Mode != pin.NoMemory && l.Mem.Text != "" {
		return "its bindMem is no"
	}
	slots := n.slotsInMapOrder(n.CPUMap)
	if err := n.Topology.CheckLayout(slots, busyForLayout(n, l, w.ignoreOtherJobs), l, n.slotsAreThreads()); err != nil {
		return "it " + err.Error()
	}
	return ""
}

// takeSlots gives the next rank of a candidate its slots.
func (l *layoutState) takeSlots(i, width int) {
	take, ok := l.slotPools[i].TakeSlots(width, l.pprRounds)
	if !ok {
		take = l.slotPools[i].ShareSlots(width)
		l.sharesSlots[i] = l.sharesSlots[i] || len(l.slots[i]) > 0 // else nobody has looked
	}
	l.takenByRank = append(l.takenByRank, take)
}

// allowMoreRounds lets ppr go round again, if that is allowed and what it takes.
func (s *placement) allowMoreRounds(a *eligibleNodes, n int) {
	l := s.layout
	if l == nil || l.Map.PerObject == 0 || !s.mayShareCPUs(a, n) {
		return
	}
	for before := -1; a.freeCapacity() < n && a.freeCapacity() > before; {
		before = a.freeCapacity()
		l.pprRounds++
		for _, i := range a.candidates {
			a.capacity[i] = s.capacityOf(i, a)
		}
	}
}

// placeAcrossNodes deals ranks round the things of all nodes (--map-by X:span).
func (s *placement) placeAcrossNodes(a *eligibleNodes, app, n int, quota []int) {
	width := max(1, a.app.CPUsPerRank)
	for placed := true; n > 0 && placed; {
		placed = false
		for _, i := range a.candidates {
			for thing := range s.layout.slotPools[i].CountObjects() {
				if n == 0 || quota[i] == 0 {
					break
				}
				take, ok := s.layout.slotPools[i].TakeSlotsOf(thing, width, s.layout.pprRounds)
				if !ok {
					continue
				}
				s.layout.takenByRank = append(s.layout.takenByRank, take)
				s.putRank(app, i)
				quota[i]--
				n--
				placed = true
			}
		}
	}
	if n > 0 { // the others share
		s.fillNodes(app, n, quota)
	}
}

// renumberRanks gives the ranks of an app, from first on, their numbers by --rank-by.
func (s *placement) renumberRanks(first int) {
	l := s.layout
	if l == nil || l.Rank.Text == "" {
		return
	}
	order := s.sortRanks(first)
	places, takes := slices.Clone(s.assigned[first:]), slices.Clone(l.takenByRank[first:])
	for k, from := range order {
		s.assigned[first+k], l.takenByRank[first+k] = places[from.mappedIndex], takes[from.mappedIndex]
	}
}

// A rankOrder is where a mapped rank stands in the order of numbers: by the three keys, and
// then as it was mapped.
type rankOrder struct {
	keys        [3]int
	mappedIndex int
}

// sortRanks sorts the ranks from first on.
func (s *placement) sortRanks(first int) []rankOrder {
	visit := make(map[int]int)     // candidate: when it was first met
	local := make(map[int]int)     // candidate: ranks so far
	inside := make(map[[2]int]int) // candidate and thing: ranks so far
	turns := make([]rankOrder, len(s.assigned)-first)
	for k, assigned := range s.assigned[first:] {
		i := assigned.candidate
		if _, met := visit[i]; !met {
			visit[i] = len(visit)
		}
		thing := s.layout.objectOf(s, i, s.layout.takenByRank[first+k])
		turns[k] = rankOrder{mappedIndex: k}
		keys := &turns[k].keys
		switch s.layout.Rank.Order {
		case "slot":
			keys[0] = visit[i]
		case "node":
			keys[0], keys[1] = local[i], visit[i]
		case "fill":
			keys[0], keys[1] = visit[i], thing
		case "span":
			*keys = [3]int{inside[[2]int{i, thing}], visit[i], thing}
		default:
			*keys = [3]int{visit[i], inside[[2]int{i, thing}], thing}
		}
		local[i]++
		inside[[2]int{i, thing}]++
	}
	slices.SortStableFunc(turns, func(a, b rankOrder) int { return slices.Compare(a.keys[:], b.keys[:]) })
	return turns
}

// objectOf is the number of what a rank lies in: what it was mapped to, or what --rank-by
// names.
func (l *layoutState) objectOf(s *placement, i int, t pin.RankSlots) int {
	if l.Rank.Order != "object" || len(t.Slots) == 0 {
		return t.Object
	}
	return s.candidates[i].Topology.ObjectOf(l.slots[i][t.Slots[0]].CPUs[0], l.Rank.Level)
}

// refuseByPolicy says that it is a policy which leaves no more room, if that is so.
func (s *placement) refuseByPolicy(a *eligibleNodes, n int, failed *Error) *Error {
	if s.layout == nil {
		return failed
	}
	m, by := s.layout.Map, ""
	listed := func(i int) bool { return layoutFor(&s.candidates[i], s.req.Layout).Bind.CPUList != nil }
	if k := slices.IndexFunc(a.candidates, listed); k >= 0 {
		by = bindingSource(&s.candidates[a.candidates[k]], s.req.Layout)
	}
	if m.Text != "" {
		by = "--map-by " + m.Text
	}
	if by == "" {
		return failed
	}
	failed.Text = fmt.Sprintf("%d ranks%s do not fit: %s leaves room for %d on %s (%s)",
		n, a.describeThreads(), by, a.freeCapacity(), text.Count(len(a.candidates), "node"), hostlist.FoldBrief(a.names))
	if m.PerObject > 0 {
		failed.Remedy = fmt.Sprintf("lower -n to %d or raise the %d of ppr, or share CPUs with --oversubscribe", a.freeCapacity(), m.PerObject)
	}
	return failed
}

// bindMappedRanks binds the ranks of a node as --bind-to says.
func (s *placement) bindMappedRanks(i int, ranks []job.RankPlan) *Error {
	n, l := &s.candidates[i], s.layout
	layout := layoutFor(n, l.Layout)
	if len(n.Topology.Cores) == 0 {
		return nil
	}
	extent := pin.NewBinder(n.Topology, l.slots[i], pin.FreeSlots(l.slots[i], busyForLayout(n, layout, s.ignoresOtherJobs())), layout, n.slotsAreThreads())
	if layout.Bind.PutsRanksOnSameCPU(len(ranks)) && !s.userAllowsSharing() {
		return &Error{Code: CodeNotEnough, Permanent: true, Remedy: "name a set for each rank of a node, or share CPUs with --oversubscribe",
			Text: fmt.Sprintf("%s gives the %d ranks on %s the same CPUs", bindingSource(n, l.Layout), len(ranks), n.Name)}
	}
	for k := range ranks {
		s.bindRank(n, &ranks[k], extent.Bind(k, l.takenByRank[ranks[k].Rank].Slots))
		s.sharesCPUs = s.sharesCPUs || slices.ContainsFunc(ranks[k].Slots, func(slot int) bool { return n.busy[l.slots[i][slot].Number] })
	}
	return nil
}

// refuseOverload refuses to bind ranks to the same CPUs where nobody has said that they may
// share them; slots that were written down say so for placement alone.
func (s *placement) refuseOverload() *Error {
	l := s.layout
	if l == nil || s.userAllowsSharing() {
		return nil
	}
	for i, shared := range l.sharesSlots {
		n := &s.candidates[i]
		if s.req.LocalOnly && (s.sharesCPUs || n.Slots == 0) {
			continue
		}
		if bind := layoutFor(n, l.Layout).Bind; shared && bind.Text != "" && !bind.None && !bind.Overload {
			by := bindingSource(n, l.Layout)
			return &Error{Code: CodeNotEnough, Permanent: true, Text: by + " would bind several ranks to the same CPUs",
				Remedy: fmt.Sprintf("write %s:overload-allowed, or start fewer ranks", by)}
		}
	}
	return nil
}
