package plan

import (
	"fmt"
	"maps"
	"slices"

	"remshell/job"
	"remshell/pin"
)

// bind gives every rank its slots, CPUs and memory (section 7), and warns of nodes
// that do not take the user's map.
func (s *placement) bind(plans []job.NodePlan) (notes []job.Note, failed *Error) {
	for k := range plans {
		note, failed := s.bindNode(s.assigned[plans[k].Ranks[0].Rank].candidate, plans[k].Ranks)
		if note.Code != "" {
			notes = append(notes, note)
		}
		if failed != nil {
			return notes, failed
		}
		s.fence(&s.candidates[s.assigned[plans[k].Ranks[0].Rank].candidate], plans[k].Ranks)
	}
	return notes, nil
}

// fence keeps ranks that are not bound on the CPUs of a list that a batch system gave (RM-6): what
// their helper may use is more.
func (s *placement) fence(n *candidate, ranks []job.RankPlan) {
	if !n.Fenced {
		return
	}
	usable := n.Topology.Usable()
	for i := range ranks {
		if r := &ranks[i]; r.CPUs == nil {
			p := *r.Portion
			p.CPUs = usable
			r.Portion = s.portions.common(p)
		}
	}
}

// bindNode does so on one node.
func (s *placement) bindNode(i int, ranks []job.RankPlan) (note job.Note, failed *Error) {
	n := &s.candidates[i]
	if s.picked() {
		s.bindPicked(i, ranks)
		s.equip(n, ranks)
		return note, nil
	}
	cpuMap, note := s.mapOf(n)
	if s.layer != nil {
		failed = s.bindTakes(i, ranks)
		if n.loose && note.Code == "" {
			note = n.claimed()
		}
		s.equip(n, ranks)
		return note, failed
	}
	slots := n.slots(cpuMap)
	n.busy = n.keepOff(slots, n.busy, s.demand(ranks))
	if n.loose && note.Code == "" {
		note = n.claimed()
	}
	mapped := len(s.req.Map) > 0 && (note.Code == "" || note.Code == Claimed) // by the user, who means this order
	shared := s.over || s.demand(ranks) > len(pin.Free(slots, n.busy))
	widths := s.widths(n, ranks, slots)
	if s.demandGPUs(ranks) > 0 && !mapped && !shared {
		s.bindNear(n, ranks, slots, widths)
		return note, nil
	}
	s.bindRound(n, ranks, slots, widths)
	s.equip(n, ranks)
	return note, nil
}

// keepOff keeps ranks off the CPUs that jobs outside of our batch system's job claim, if enough are
// left without; else the ranks of the node share CPUs with those jobs, and are not bound (RM-20).
func (n *candidate) keepOff(slots []pin.Unit, busy pin.Busy, demand int) pin.Busy {
	claimed := n.taken(n.Beyond.Busy, 0, 0)
	if len(claimed) == 0 {
		return busy
	}
	both := maps.Clone(claimed)
	maps.Copy(both, busy)
	if demand <= len(pin.Free(slots, both)) {
		return both
	}
	n.loose = true
	return busy
}

// claimed tells whose claims these are.
func (n *candidate) claimed() job.Note {
	units := len(n.taken(n.Beyond.Busy, 0, 0))
	return job.Note{Code: Claimed, Node: n.Name, ID: n.ID,
		Text: fmt.Sprintf("%s: %d of %d granted CPUs are claimed by job %s of %s; ranks there are not bound",
			n.Name, units, max(n.Slots, units), n.Beyond.WhoJob, n.Beyond.Who)}
}

// mapOf is the CPU map that holds on a node: the user's if it applies (7.3).
func (s *placement) mapOf(n *candidate) (cpuMap []int, note job.Note) {
	if len(s.req.Map) == 0 {
		return n.CPUMap, note
	}
	note = job.Note{Node: n.Name, ID: n.ID}
	if !n.UserMap {
		note.Code = MapDenied
		note.Text = fmt.Sprintf("%s ignored on %s: allowUserMap is no", s.req.MapFrom, n.Name)
		return n.CPUMap, note
	}
	for _, number := range s.req.Map {
		if !n.Topology.Has(number, n.CountThreads) {
			note.Code = MapTooLarge
			note.Text = fmt.Sprintf("%s ignored on %s: the node has no core %d", s.req.MapFrom, n.Name, number)
			return n.CPUMap, note
		}
	}
	return s.req.Map, job.Note{}
}

// bindRound hands out the free slots of a node in rank order. Ranks that share hand
// round the slots again and again (7.2); so do those for which more slots were
// written down than the node has. widths are those of the ranks, in slots.
func (s *placement) bindRound(n *candidate, ranks []job.RankPlan, slots []pin.Unit, widths []int) {
	free := n.unsharedFirst(slots, pin.Free(slots, n.busy))
	if len(free) == 0 {
		return
	}
	shared := s.over || s.demand(ranks) > len(free)
	made := make(map[[2]int]pin.Seat) // by first slot and width, if shared
	next := 0
	for i := range ranks {
		r := &ranks[i]
		width := min(widths[i], len(free))
		if shared {
			next = r.Local % (len(free) / width) * width
		}
		assigned, known := made[[2]int{next, width}]
		if !known {
			mine := free[next : next+width : next+width]
			slices.Sort(mine)
			assigned = pin.NewSeat(slots, mine)
			if shared {
				made[[2]int{next, width}] = assigned
			}
		}
		next += width
		s.give(n, r, assigned)
	}
}

// unsharedFirst puts those free slots first that the job itself does not hold either.
func (s *candidate) unsharedFirst(slots []pin.Unit, free []int) []int {
	if !s.crowded {
		return free
	}
	mine := s.taken(s.Mine, 0, 0)
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(free), func(slot int) bool { return mine[slots[slot].Number] }),
		slices.DeleteFunc(slices.Clone(free), func(slot int) bool { return !mine[slots[slot].Number] }))
}

// give lets a rank have its assigned, as far as it is to be bound (7.4, 7.5).
func (s *placement) give(n *candidate, r *job.RankPlan, assigned pin.Seat) {
	p := job.Portion{Slots: assigned.Slots, Held: assigned.CPUs}
	if n.loose {
		r.Portion = s.portions.common(p)
		return
	}
	if s.pins(n) && !assigned.Loose {
		p.CPUs = assigned.CPUs
	}
	switch mem := s.req.Layout.Mem; {
	case s.req.Apps[r.App].NUMA.Strict:
		p.Mems = assigned.Mems
	case s.req.NoMemBind || n.NoMemBind:
	case mem.Text == "":
		p.Mems = assigned.Mems
	case mem.Nodes != nil:
		p.Mems = mem.Nodes
	default:
		if p.MemMode = mem.Mode; mem.Mode == pin.Interleave {
			p.Mems = n.Topology.NUMANodes()
		}
	}
	r.Portion = s.portions.common(p)
}

// pins reports whether the ranks of a candidate are bound to CPUs. What the administrator says
// comes first, then what the entry of the host says.
func (s *placement) pins(n *candidate) bool {
	none := s.req.NoPin
	if n.Bind != nil {
		none = n.Bind.None
	}
	return !none && !n.NoPin
}

func (s *placement) threads(r *job.RankPlan) int { return max(1, s.req.Apps[r.App].Threads) }

// demand is how many slots the ranks of a node want.
func (s *placement) demand(ranks []job.RankPlan) int {
	total := 0
	for i := range ranks {
		total += s.threads(&ranks[i])
	}
	return total
}

// portions are those that ranks of the plan have, each once: a plan of a million ranks on nodes that
// are alike has as many as one node.
type portions map[portionKey][]*job.Portion

// A portionKey tells most of them apart.
type portionKey struct{ slot, slots, cpu, cpus int }

// alikeMost is how many portions of one key are compared with a new one. Where there are more, the
// nodes are not alike, and each rank has its own.
const alikeMost = 8

// common is the portion that equals p.
func (known portions) common(p job.Portion) *job.Portion {
	key := portionKey{lowest(p.Slots), len(p.Slots), lowest(p.Held), len(p.Held)}
	for _, other := range known[key] {
		if other.MemMode == p.MemMode && same(other.Slots, p.Slots) && same(other.Held, p.Held) &&
			same(other.CPUs, p.CPUs) && same(other.Mems, p.Mems) {
			return other
		}
	}
	fresh := new(job.Portion)
	*fresh = p
	if len(known[key]) < alikeMost {
		known[key] = append(known[key], fresh)
	}
	return fresh
}

// same reports whether two lists are the same, of which none and an empty one are not.
func same(a, b []int) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// lowest is the first number of an ascending list; -1: it has none.
func lowest(numbers []int) int {
	if len(numbers) == 0 {
		return -1
	}
	return numbers[0]
}
