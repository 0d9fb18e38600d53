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
//	bind    which CPUs it may run on: pin.Extent

// A dealing is what a job with a layout knows beside the placement.
type dealing struct {
	pin.Layout              // of the job; see layoutOn
	slots      [][]pin.Unit // by candidate
	pools      []*pin.Pool  // by candidate; nil: it is not used
	rounds     int          // how often ppr may be filled
	takes      []pin.Take   // by rank
	shared     []bool       // by candidate: some ranks have the same slots
	confined   bool         // ranks of some section stay inside of NUMA nodes
}

// layoutOn is what holds on a candidate: the binding that its entry has takes the place of the
// job's.
func layoutOn(n *candidate, l pin.Layout) pin.Layout {
	if n.Bind != nil {
		l.Bind = *n.Bind
	}
	return l
}

// bindingBy is the binding of a candidate as it was asked for.
func bindingBy(n *candidate, l pin.Layout) string {
	if n.Bind != nil {
		return "binding=" + n.Bind.Text
	}
	return "--bind-to " + l.Bind.Text
}

// deals reports whether a layout has to be followed, at least on some candidate, or NUMA nodes
// minded.
func (s *placement) deals() bool {
	return s.req.Layout.Deals() || confines(s.req) ||
		slices.ContainsFunc(s.order, func(i int) bool { return layoutOn(&s.candidates[i], s.req.Layout).Deals() })
}

func newLayer(s *placement) *dealing {
	l := &dealing{Layout: s.req.Layout, slots: make([][]pin.Unit, len(s.candidates)), pools: make([]*pin.Pool, len(s.candidates)), rounds: 1, shared: make([]bool, len(s.candidates)), confined: confines(s.req)}
	for _, i := range distinct(s.order, len(s.candidates)) {
		n := &s.candidates[i]
		cpuMap, _ := s.mapOf(n)
		l.slots[i] = n.slots(cpuMap)
		layout := layoutOn(n, l.Layout)
		if len(n.Topology.Cores) == 0 { // nobody has looked: what it lacks is not known
			layout = pin.Layout{}
		}
		busy := n.keepOff(l.slots[i], barred(n, layout, s.others()), n.free)
		l.pools[i] = l.pool(n, l.slots[i], layout, busy, s.widest)
	}
	return l
}

// barred are the slots of other jobs that a layout keeps off: all of them but, where others
// are no obstacle, if the layout names its CPUs.
func barred(n *candidate, l pin.Layout, others bool) pin.Busy {
	if others && l.Names() {
		return nil
	}
	return n.busy
}

// lacks says what a node has not that the layout needs, after its name.
func lacks(n *candidate, w *requirement) string {
	l := layoutOn(n, w.layout)
	if !l.Deals() && l.Mem.Text == "" || len(n.Topology.Cores) == 0 {
		return ""
	}
	if n.NoMemBind && l.Mem.Mode != pin.NoMemory && l.Mem.Text != "" {
		return "its bindMem is no"
	}
	slots := n.slots(n.CPUMap)
	if err := n.Topology.Lacks(slots, barred(n, l, w.others), l, n.byThreads()); err != nil {
		return "it " + err.Error()
	}
	return ""
}

// take gives the next rank of a candidate its slots.
func (l *dealing) take(i, width int) {
	take, ok := l.pools[i].Take(width, l.rounds)
	if !ok {
		take = l.pools[i].Share(width)
		l.shared[i] = l.shared[i] || len(l.slots[i]) > 0 // else nobody has looked
	}
	l.takes = append(l.takes, take)
}

// refill lets ppr go round again, if that is allowed and what it takes.
func (s *placement) refill(a *eligible, n int) {
	l := s.layer
	if l == nil || l.Map.Each == 0 || !s.mayShare(a, n) {
		return
	}
	for before := -1; a.unused() < n && a.unused() > before; {
		before = a.unused()
		l.rounds++
		for _, i := range a.candidates {
			a.room[i] = s.roomIn(i, a)
		}
	}
}

// span deals ranks round the things of all nodes (--map-by X:span).
func (s *placement) span(a *eligible, app, n int, quota []int) {
	width := max(1, a.app.Threads)
	for placed := true; n > 0 && placed; {
		placed = false
		for _, i := range a.candidates {
			for thing := range s.layer.pools[i].Things() {
				if n == 0 || quota[i] == 0 {
					break
				}
				take, ok := s.layer.pools[i].TakeFrom(thing, width, s.layer.rounds)
				if !ok {
					continue
				}
				s.layer.takes = append(s.layer.takes, take)
				s.sit(app, i)
				quota[i]--
				n--
				placed = true
			}
		}
	}
	if n > 0 { // the others share
		s.fill(app, n, quota)
	}
}

// rerank gives the ranks of an app, from first on, their numbers by --rank-by.
func (s *placement) rerank(first int) {
	l := s.layer
	if l == nil || l.Rank.Text == "" {
		return
	}
	order := s.ranking(first)
	places, takes := slices.Clone(s.assigned[first:]), slices.Clone(l.takes[first:])
	for k, from := range order {
		s.assigned[first+k], l.takes[first+k] = places[from.mapped], takes[from.mapped]
	}
}

// A turn is where a mapped rank stands in the order of numbers: by the three keys, and
// then as it was mapped.
type turn struct {
	keys   [3]int
	mapped int
}

// ranking sorts the ranks from first on.
func (s *placement) ranking(first int) []turn {
	visit := make(map[int]int)     // candidate: when it was first met
	local := make(map[int]int)     // candidate: ranks so far
	inside := make(map[[2]int]int) // candidate and thing: ranks so far
	turns := make([]turn, len(s.assigned)-first)
	for k, assigned := range s.assigned[first:] {
		i := assigned.candidate
		if _, met := visit[i]; !met {
			visit[i] = len(visit)
		}
		thing := s.layer.thing(s, i, s.layer.takes[first+k])
		turns[k] = turn{mapped: k}
		keys := &turns[k].keys
		switch s.layer.Rank.Order {
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
	slices.SortStableFunc(turns, func(a, b turn) int { return slices.Compare(a.keys[:], b.keys[:]) })
	return turns
}

// thing is the number of what a rank lies in: what it was mapped to, or what --rank-by
// names.
func (l *dealing) thing(s *placement, i int, t pin.Take) int {
	if l.Rank.Order != "object" || len(t.Slots) == 0 {
		return t.Thing
	}
	return s.candidates[i].Topology.Of(l.slots[i][t.Slots[0]].CPUs[0], l.Rank.Level)
}

// mapped says that it is a policy which leaves no more room, if that is so.
func (s *placement) mapped(a *eligible, n int, failed *Error) *Error {
	if s.layer == nil {
		return failed
	}
	m, by := s.layer.Map, ""
	listed := func(i int) bool { return layoutOn(&s.candidates[i], s.req.Layout).Bind.Only != nil }
	if k := slices.IndexFunc(a.candidates, listed); k >= 0 {
		by = bindingBy(&s.candidates[a.candidates[k]], s.req.Layout)
	}
	if m.Text != "" {
		by = "--map-by " + m.Text
	}
	if by == "" {
		return failed
	}
	failed.Text = fmt.Sprintf("%d ranks%s do not fit: %s leaves room for %d on %s (%s)",
		n, a.width(), by, a.unused(), text.Count(len(a.candidates), "node"), hostlist.Brief(a.names))
	if m.Each > 0 {
		failed.Way = fmt.Sprintf("lower -n to %d or raise the %d of ppr, or share CPUs with --oversubscribe", a.unused(), m.Each)
	}
	return failed
}

// bindTakes binds the ranks of a node as --bind-to says.
func (s *placement) bindTakes(i int, ranks []job.RankPlan) *Error {
	n, l := &s.candidates[i], s.layer
	layout := layoutOn(n, l.Layout)
	if len(n.Topology.Cores) == 0 {
		return nil
	}
	extent := pin.NewExtent(n.Topology, l.slots[i], pin.Free(l.slots[i], barred(n, layout, s.others())), layout, n.byThreads())
	if layout.Bind.Crowds(len(ranks)) && !s.welcomesSharing() {
		return &Error{Code: NotEnough, Permanent: true, Way: "name a set for each rank of a node, or share CPUs with --oversubscribe",
			Text: fmt.Sprintf("%s gives the %d ranks on %s the same CPUs", bindingBy(n, l.Layout), len(ranks), n.Name)}
	}
	for k := range ranks {
		s.give(n, &ranks[k], extent.Seat(k, l.takes[ranks[k].Rank].Slots))
		s.over = s.over || slices.ContainsFunc(ranks[k].Slots, func(slot int) bool { return n.busy[l.slots[i][slot].Number] })
	}
	return nil
}

// overloaded refuses to bind ranks to the same CPUs where nobody has said that they may
// share them; slots that were written down say so for placement alone.
func (s *placement) overloaded() *Error {
	l := s.layer
	if l == nil || s.welcomesSharing() {
		return nil
	}
	for i, shared := range l.shared {
		n := &s.candidates[i]
		if s.req.Home && (s.over || n.Slots == 0) {
			continue
		}
		if bind := layoutOn(n, l.Layout).Bind; shared && bind.Text != "" && !bind.None && !bind.Overload {
			by := bindingBy(n, l.Layout)
			return &Error{Code: NotEnough, Permanent: true, Text: by + " would bind several ranks to the same CPUs",
				Way: fmt.Sprintf("write %s:overload-allowed, or start fewer ranks", by)}
		}
	}
	return nil
}
