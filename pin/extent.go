package pin

import (
	"fmt"
	"slices"
)

// An Extent widens or narrows what a rank was given to what it is to be bound to
// (--bind-to). It belongs to one node.
type Extent struct {
	bind  Binding
	slots []Unit
	of    []int         // of a slot: the group of things it lies in; -1: in none
	in    map[int][]int // of a group: its free slots, ascending
	free  []int         // all free slots, ascending
	core  map[int]int   // of a CPU

	byCPU map[int]int // of a free CPU: its slot
	cpus  []int       // of all free slots, ascending
}

// NewExtent prepares a node. The error says what the node lacks, after its name.
func NewExtent(t Topology, slots []Unit, free []int, l Layout, threads bool) (*Extent, error) {
	e := &Extent{bind: l.Bind, slots: slots, free: slices.Sorted(slices.Values(free)), core: t.coreOf(),
		byCPU: make(map[int]int)}
	for _, slot := range e.free {
		for _, cpu := range slots[slot].CPUs {
			e.byCPU[cpu] = slot
			e.cpus = append(e.cpus, cpu)
		}
	}
	slices.Sort(e.cpus)
	only := l.Bind.Only
	if only == nil && !l.Map.Ordered && l.Bind.Text == "" {
		only = l.Map.Only
	}
	switch {
	case only != nil:
		listed, err := listedSlots(t, slots, only, threads)
		if err != nil {
			return nil, err
		}
		e.one(keep(listed, e.free))
	case l.Bind.Level == ByNode:
		e.one(e.free)
	case l.Bind.Level == BySlot, l.Bind.Level == ByThread:
	case !t.Knows(l.Bind.Level):
		if !l.Bind.IfSupported {
			return nil, fmt.Errorf("does not tell its %s", plural(l.Bind.Level))
		}
	default:
		return e, e.sort(t)
	}
	return e, e.known(t)
}

// one makes some slots the extent of every rank.
func (e *Extent) one(slots []int) {
	e.of = make([]int, len(e.slots))
	e.in = map[int][]int{0: slices.Sorted(slices.Values(slots))}
}

// sort finds the groups of things.
func (e *Extent) sort(t Topology) error {
	firsts, group := t.things(e.bind.Level, e.bind.Count)
	if len(group) < e.bind.Count {
		return fmt.Errorf("has %d %s, not %d", len(group), plural(e.bind.Level), e.bind.Count)
	}
	e.of, e.in = make([]int, len(e.slots)), make(map[int][]int, len(firsts))
	for slot, u := range e.slots {
		e.of[slot] = -1
		if n := t.at(e.core[u.CPUs[0]], e.bind.Level); n >= 0 {
			e.of[slot] = group[n]
		}
	}
	for _, slot := range e.free {
		if g := e.of[slot]; g >= 0 {
			e.in[g] = append(e.in[g], slot)
		}
	}
	return nil
}

// known sees that the CPUs of the sets are there and free.
func (e *Extent) known(t Topology) error {
	for _, set := range e.bind.Sets {
		for _, cpu := range set {
			if _, usable := e.core[cpu]; !usable {
				return fmt.Errorf("has no CPU %d that may be used: it has %s", cpu, Spans(t.Usable()))
			}
			if _, free := e.byCPU[cpu]; !free {
				return fmt.Errorf("has CPU %d in use by another job", cpu)
			}
		}
	}
	return nil
}

// Usable lists the CPUs that may be used, ascending.
func (t Topology) Usable() []int {
	var cpus []int
	for i := range t.Cores {
		cpus = append(cpus, t.Cores[i].CPUs...)
	}
	slices.Sort(cpus)
	return cpus
}

// Seat is what the local-th rank of the node is bound to, which was given mine.
func (e *Extent) Seat(local int, mine []int) Seat {
	switch {
	case e.bind.Sets != nil:
		return e.exactly(e.bind.Sets[local%len(e.bind.Sets)])
	case e.bind.RoundRobin && len(e.cpus) > 0:
		return e.exactly(e.cpus[local%len(e.cpus) : local%len(e.cpus)+1])
	case e.of != nil:
		mine = e.widened(mine)
	}
	seat := NewSeat(e.slots, slices.Sorted(slices.Values(mine)))
	if e.bind.Level == ByThread {
		var first []int
		for _, slot := range seat.Slots {
			first = append(first, e.slots[slot].CPUs[0])
		}
		slices.Sort(first)
		seat.CPUs = first
	}
	return seat
}

// widened adds the other free slots of the groups in which some slots are.
func (e *Extent) widened(mine []int) []int {
	var groups, wide []int
	for _, slot := range mine {
		switch g := e.of[slot]; {
		case g < 0:
			wide = append(wide, slot)
		case !slices.Contains(groups, g):
			groups = append(groups, g)
			wide = append(wide, e.in[g]...)
		}
	}
	return wide
}

// exactly is a seat with these CPUs, and the slots they touch.
func (e *Extent) exactly(cpus []int) Seat {
	var mine []int
	for _, cpu := range cpus {
		mine = append(mine, e.byCPU[cpu])
	}
	slices.Sort(mine)
	seat := NewSeat(e.slots, slices.Compact(mine))
	seat.CPUs = slices.Compact(slices.Sorted(slices.Values(cpus)))
	return seat
}

// Crowds reports whether ranks of one node are to have the same CPU of those that were
// written down for them.
func (b Binding) Crowds(ranks int) bool {
	if ranks > len(b.Sets) {
		return b.Sets != nil
	}
	seen := make(map[int]bool)
	for _, set := range b.Sets[:ranks] {
		for _, cpu := range slices.Compact(slices.Sorted(slices.Values(set))) {
			if seen[cpu] {
				return true
			}
			seen[cpu] = true
		}
	}
	return false
}
