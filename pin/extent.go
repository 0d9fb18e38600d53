package pin

import (
	"slices"

	"remshell/idset"
)

// An Extent widens or narrows what a rank was given to what it is to be bound to
// (--bind-to). It belongs to one node.
type Extent struct {
	bind  Binding
	slots []Unit
	of    []int        // of a slot: the group of things it lies in; -1: in none
	in    [][]int      // of a group: its free slots, ascending
	made  map[int]Seat // of a group: the seat of all ranks in it alone
	byCPU map[int]int  // of a free CPU: its slot
	cpus  []int        // of all free slots, ascending
}

// NewExtent prepares a node that lacks nothing.
func NewExtent(t Topology, slots []Unit, free []int, l Layout, threads bool) *Extent {
	e := &Extent{bind: l.Bind, slots: slots, made: make(map[int]Seat)}
	free = slices.Sorted(slices.Values(free))
	only := l.Bind.Only
	if only == nil && !l.Map.Ordered && l.Bind.Text == "" {
		only = l.Map.Only
	}
	switch level := l.Bind.Level; {
	case only != nil:
		listed, _ := listedSlots(t, slots, only, threads)
		e.one(keep(listed, free))
	case l.Bind.Sets != nil, l.Bind.RoundRobin:
		e.list(free)
	case level == ByNode:
		e.one(free)
	case level != BySlot && level != ByThread && t.Knows(level):
		e.sort(t, free)
	}
	return e
}

// one makes some slots the extent of every rank.
func (e *Extent) one(slots []int) {
	e.of = make([]int, len(e.slots))
	e.in = [][]int{slices.Sorted(slices.Values(slots))}
}

// sort finds the groups of things.
func (e *Extent) sort(t Topology, free []int) {
	firsts, group := t.things(e.bind.Level, e.bind.Count)
	e.of, e.in = t.groupsOf(e.slots, e.bind.Level, group), make([][]int, len(firsts))
	for _, slot := range free {
		if g := e.of[slot]; g >= 0 {
			e.in[g] = append(e.in[g], slot)
		}
	}
}

// list finds the free CPUs.
func (e *Extent) list(free []int) {
	e.byCPU = make(map[int]int)
	for _, slot := range free {
		for _, cpu := range e.slots[slot].CPUs {
			e.byCPU[cpu] = slot
			e.cpus = append(e.cpus, cpu)
		}
	}
	slices.Sort(e.cpus)
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
		set := e.bind.Sets[local%len(e.bind.Sets)]
		if len(set) > 0 {
			return e.exactly(set)
		}
		seat := NewSeat(e.slots, slices.Sorted(slices.Values(mine)))
		seat.Loose = true
		return seat
	case e.bind.RoundRobin && len(e.cpus) > 0:
		return e.exactly(e.cpus[local%len(e.cpus) : local%len(e.cpus)+1])
	case e.of != nil:
		return e.widened(mine)
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
func (e *Extent) widened(mine []int) Seat {
	var groups, wide []int
	for _, slot := range mine {
		switch g := e.of[slot]; {
		case g < 0:
			wide = append(wide, slot)
		case !slices.Contains(groups, g):
			groups = append(groups, g)
		}
	}
	alone := len(groups) == 1 && wide == nil
	if alone {
		if seat, known := e.made[groups[0]]; known {
			return seat
		}
	}
	for _, g := range groups {
		wide = append(wide, e.in[g]...)
	}
	slices.Sort(wide)
	seat := NewSeat(e.slots, wide)
	if alone {
		e.made[groups[0]] = seat
	}
	return seat
}

// exactly is a seat with these CPUs, and the slots they touch.
func (e *Extent) exactly(cpus []int) Seat {
	var mine []int
	for _, cpu := range cpus {
		mine = append(mine, e.byCPU[cpu])
	}
	seat := NewSeat(e.slots, idset.Of(mine...))
	seat.CPUs = idset.Of(cpus...)
	return seat
}

// Crowds reports whether ranks of one node are to have the same CPU of those that were
// written down for them.
func (b Binding) Crowds(ranks int) bool {
	if b.Sets == nil {
		return false
	}
	seen := make(map[int]bool)
	for local := range ranks {
		for _, cpu := range idset.Of(b.Sets[local%len(b.Sets)]...) {
			if seen[cpu] {
				return true
			}
			seen[cpu] = true
		}
	}
	return false
}
