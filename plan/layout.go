package plan

import (
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file implements those parts of --map-by, --rank-by and --bind-to (cli.md section 2) that go beyond
// placement.md:
//
//	map     to which node and object (socket, core, ...) a rank goes: pin.Pool, span
//	rank    which number it gets: renumberRanks
//	bind    on which CPUs it may run: pin.Binder

// A layoutState holds the state of a placement that follows a layout (--map-by, --rank-by, --bind-to).
type layoutState struct {
	pin.Layout                     // of the job; layoutFor returns that of a candidate
	slots          [][]pin.Unit    // by candidate
	slotPools      []*pin.Pool     // by candidate; nil if it is not used
	pprRounds      int             // how often the objects may be filled with the ranks of ppr
	takenByRank    []pin.RankSlots // by rank
	sharesSlots    []bool          // by candidate: whether some ranks have the same slots
	confinedToNUMA bool            // ranks of some app must stay inside a NUMA node
}

// layoutFor returns the layout (mapping, ranking, binding) for a candidate. It is the job's layout, but a binding
// in the candidate's host entry replaces the job's binding.
func layoutFor(n *candidate, l pin.Layout) pin.Layout {
	if n.Bind != nil {
		l.Bind = *n.Bind
	}
	return l
}

// bindingSource returns the setting or option that says how a candidate's ranks are bound, with its value, as messages
// show it.
func bindingSource(n *candidate, l pin.Layout) string {
	if n.Bind != nil {
		return "binding=" + n.Bind.Text
	}
	return "--bind-to " + l.Bind.Text
}

// followsLayout reports whether ranks are placed by a layout (mapping, ranking, binding). It returns true if the layout
// of the job or of a host entry needs a pin.Pool, or if ranks must stay inside a NUMA node.
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
		if len(n.Topology.Cores) == 0 { // not probed: its objects are not known
			layout = pin.Layout{}
		}
		busy := n.avoidClaimedCPUs(l.slots[i], busyForLayout(n, layout, s.ignoresOtherJobs()), n.free)
		l.slotPools[i] = l.newPool(n, l.slots[i], layout, busy, s.maxThreads)
	}
	return l
}

// busyForLayout returns the units that ranks placed by a layout must not use, because they are busy. It returns nil if
// ignoreOtherJobs is true and the layout names CPUs by number.
func busyForLayout(n *candidate, l pin.Layout, ignoreOtherJobs bool) pin.BusyUnits {
	if ignoreOtherJobs && l.NamesCPUs() {
		return nil
	}
	return n.busy
}

// missingForLayout returns what a node lacks for the layout, as text to print after the node's name. It
// returns "" if the node lacks nothing.
func missingForLayout(n *candidate, w *requirement) string {
	l := layoutFor(n, w.layout)
	if !l.NeedsPool() && l.Mem.Text == "" || len(n.Topology.Cores) == 0 {
		return ""
	}
	if n.NoMemBind && l.Mem.Mode != pin.NoMemory && l.Mem.Text != "" {
		return "memory binding is switched off on the host (bindMem = no)"
	}
	slots := n.slotsInMapOrder(n.CPUMap)
	if err := n.Topology.CheckLayout(slots, busyForLayout(n, l, w.ignoreOtherJobs), l, n.slotsAreThreads()); err != nil {
		return err.Error()
	}
	return ""
}

// takeSlots takes slots of candidate i for the next rank. If no slots are free, the rank gets slots that other ranks
// also use.
func (l *layoutState) takeSlots(i, width int) {
	take, ok := l.slotPools[i].TakeSlots(width, l.pprRounds)
	if !ok {
		take = l.slotPools[i].ShareSlots(width)
		l.sharesSlots[i] = l.sharesSlots[i] || len(l.slots[i]) > 0 // without slots the node was not probed
	}
	l.takenByRank = append(l.takenByRank, take)
}

// allowMoreRounds allows the mapping ppr to fill each object more than once, if CPUs may be shared and the
// ranks do not fit otherwise.
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

// placeAcrossNodes places ranks on the hardware objects of all nodes in turn (--map-by X:span).
func (s *placement) placeAcrossNodes(a *eligibleNodes, app, n int, quota []int) {
	width := max(1, a.app.CPUsPerRank)
	for placed := true; n > 0 && placed; {
		placed = false
		for _, i := range a.candidates {
			for object := range s.layout.slotPools[i].CountObjects() {
				if n == 0 || quota[i] == 0 {
					break
				}
				take, ok := s.layout.slotPools[i].TakeSlotsOf(object, width, s.layout.pprRounds)
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
	if n > 0 { // the remaining ranks share slots
		s.fillNodes(app, n, quota)
	}
}

// renumberRanks numbers the ranks of an app as --rank-by says. first is the number of the app's first rank.
func (s *placement) renumberRanks(first int) {
	l := s.layout
	if l == nil || l.Rank.Text == "" {
		return
	}
	order := s.sortRanks(first)
	assignments, slots := slices.Clone(s.assigned[first:]), slices.Clone(l.takenByRank[first:])
	for k, from := range order {
		s.assigned[first+k], l.takenByRank[first+k] = assignments[from.mappedIndex], slots[from.mappedIndex]
	}
}

// A rankOrder is the sort key by which --rank-by numbers a mapped rank. keys are compared first. If they are equal, the
// rank that was mapped first comes first.
type rankOrder struct {
	keys        [3]int
	mappedIndex int
}

// sortRanks returns the sort keys of the ranks from rank first on, in the order that --rank-by requires.
func (s *placement) sortRanks(first int) []rankOrder {
	visit := make(map[int]int)     // order of the first rank, by candidate
	local := make(map[int]int)     // ranks so far, by candidate
	inside := make(map[[2]int]int) // ranks so far, by candidate and object
	ranks := make([]rankOrder, len(s.assigned)-first)
	for k, assigned := range s.assigned[first:] {
		i := assigned.candidate
		if _, met := visit[i]; !met {
			visit[i] = len(visit)
		}
		object := s.layout.objectOf(s, i, s.layout.takenByRank[first+k])
		ranks[k] = rankOrder{mappedIndex: k}
		keys := &ranks[k].keys
		switch s.layout.Rank.Order {
		case "slot":
			keys[0] = visit[i]
		case "node":
			keys[0], keys[1] = local[i], visit[i]
		case "fill":
			keys[0], keys[1] = visit[i], object
		case "span":
			*keys = [3]int{inside[[2]int{i, object}], visit[i], object}
		default:
			*keys = [3]int{visit[i], inside[[2]int{i, object}], object}
		}
		local[i]++
		inside[[2]int{i, object}]++
	}
	slices.SortStableFunc(ranks, func(a, b rankOrder) int { return slices.Compare(a.keys[:], b.keys[:]) })
	return ranks
}

// objectOf returns the number of the hardware object, such as a socket, by which --rank-by orders a rank. If --rank-by
// names a kind of object, this is the object of that kind that contains the rank. Otherwise this is the object to which
// --map-by has mapped the rank.
func (l *layoutState) objectOf(s *placement, i int, t pin.RankSlots) int {
	if l.Rank.Order != "object" || len(t.Slots) == 0 {
		return t.Object
	}
	return s.candidates[i].Topology.ObjectOf(l.slots[i][t.Slots[0]].CPUs[0], l.Rank.Level)
}

// refuseByPolicy returns failed, the error which says that n ranks do not fit. If there are too few slots because of
// --map-by or a list of CPUs, it first changes the text and the hint to say this.
func (s *placement) refuseByPolicy(a *eligibleNodes, n int, failed *Error) *Error {
	if s.layout == nil {
		return failed
	}
	m, option := s.layout.Map, ""
	listed := func(i int) bool { return layoutFor(&s.candidates[i], s.req.Layout).Bind.CPUList != nil }
	if k := slices.IndexFunc(a.candidates, listed); k >= 0 {
		option = bindingSource(&s.candidates[a.candidates[k]], s.req.Layout)
	}
	if m.Text != "" {
		option = "--map-by " + m.Text
	}
	if option == "" {
		return failed
	}
	capacity := a.freeCapacity()
	failed.Text = fmt.Sprintf("%s: %s allows %s on %s (%s)",
		s.describeExcess(a, n), option, onlyRanks(capacity), text.Count(len(a.candidates), "node"), hostlist.FoldBrief(a.names))
	if m.PerObject > 0 && capacity > 0 {
		failed.Remedy = fmt.Sprintf("lower -n to %d, increase the %d in --map-by %s, or share CPUs with --oversubscribe", capacity, m.PerObject, m.Text)
	}
	return failed
}

// bindMappedRanks binds the ranks on candidate i as --bind-to says.
func (s *placement) bindMappedRanks(i int, ranks []job.RankPlan) *Error {
	n, l := &s.candidates[i], s.layout
	layout := layoutFor(n, l.Layout)
	if len(n.Topology.Cores) == 0 {
		return nil
	}
	binder := pin.NewBinder(n.Topology, l.slots[i], pin.FreeSlots(l.slots[i], busyForLayout(n, layout, s.ignoresOtherJobs())), layout, n.slotsAreThreads())
	if layout.Bind.PutsRanksOnSameCPU(len(ranks)) && !s.userAllowsSharing() {
		return &Error{Code: CodeNotEnough, Permanent: true, Remedy: "give each rank of a node its own set of CPUs, or share CPUs with --oversubscribe",
			Text: fmt.Sprintf("%s binds all %d ranks on %s to the same CPUs", bindingSource(n, l.Layout), len(ranks), n.Name)}
	}
	for k := range ranks {
		s.bindRank(n, &ranks[k], binder.Bind(k, l.takenByRank[ranks[k].Rank].Slots))
		s.sharesCPUs = s.sharesCPUs || slices.ContainsFunc(ranks[k].Slots, func(slot int) bool { return n.busy[l.slots[i][slot].Number] })
	}
	return nil
}

// refuseOverload returns an error if two ranks would be bound to the same CPU and the user has not allowed that. If the
// host list gives a node more slots than CPUs, ranks may share CPUs but must not be bound to the same CPUs.
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
			option := bindingSource(n, l.Layout)
			return &Error{Code: CodeNotEnough, Permanent: true, Text: option + " would bind several ranks to the same CPUs",
				Remedy: fmt.Sprintf("write %s:overload-allowed, or start fewer ranks", option)}
		}
	}
	return nil
}
