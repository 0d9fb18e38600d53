package pin

import (
	"slices"

	"remshell/idset"
)

// A Binder widens or narrows what a rank was given to what it is to be bound to
// (--bind-to). It belongs to one node.
type Binder struct {
	bind              Binding
	slots             []Unit
	groupOfSlot       []int              // of a slot: the group of things it lies in; -1: in none
	slotsOfGroup      [][]int            // of a group: its free slots, ascending
	assignmentOfGroup map[int]Assignment // of a group: the seat of all ranks in it alone
	slotOfCPU         map[int]int        // of a free CPU: its slot
	cpus              []int              // of all free slots, ascending
}

// NewBinder prepares a node that lacks nothing.
func NewBinder(t Topology, slots []Unit, free []int, l Layout, threads bool) *Binder {
	e := &Binder{bind: l.Bind, slots: slots, assignmentOfGroup: make(map[int]Assignment)}
	free = slices.Sorted(slices.Values(free))
	only := l.Bind.CPUList
	if only == nil && !l.Map.PEListOrdered && l.Bind.Text == "" {
		only = l.Map.PEList
	}
	switch level := l.Bind.Level; {
	case only != nil:
		listed, _ := slotsOfRanges(t, slots, only, threads)
		e.bindAllTo(intersect(listed, free))
	case l.Bind.Sets != nil, l.Bind.RoundRobin:
		e.listFreeCPUs(free)
	case level == ByNode:
		e.bindAllTo(free)
	case level != BySlot && level != ByThread && t.KnowsLevel(level):
		e.groupByObject(t, free)
	}
	return e
}

// bindAllTo makes some slots the extent of every rank.
func (e *Binder) bindAllTo(slots []int) {
	e.groupOfSlot = make([]int, len(e.slots))
	e.slotsOfGroup = [][]int{slices.Sorted(slices.Values(slots))}
}

// groupByObject finds the groups of things.
func (e *Binder) groupByObject(t Topology, free []int) {
	firsts, group := t.objects(e.bind.Level, e.bind.Count)
	e.groupOfSlot, e.slotsOfGroup = t.groupOfSlots(e.slots, e.bind.Level, group), make([][]int, len(firsts))
	for _, slot := range free {
		if g := e.groupOfSlot[slot]; g >= 0 {
			e.slotsOfGroup[g] = append(e.slotsOfGroup[g], slot)
		}
	}
}

// listFreeCPUs finds the free CPUs.
func (e *Binder) listFreeCPUs(free []int) {
	e.slotOfCPU = make(map[int]int)
	for _, slot := range free {
		for _, cpu := range e.slots[slot].CPUs {
			e.slotOfCPU[cpu] = slot
			e.cpus = append(e.cpus, cpu)
		}
	}
	slices.Sort(e.cpus)
}

// UsableCPUs lists the CPUs that may be used, ascending.
func (t Topology) UsableCPUs() []int {
	var cpus []int
	for i := range t.Cores {
		cpus = append(cpus, t.Cores[i].CPUs...)
	}
	slices.Sort(cpus)
	return cpus
}

// Bind is what the local-th rank of the node is bound to, which was given mine.
func (e *Binder) Bind(local int, mine []int) Assignment {
	switch {
	case e.bind.Sets != nil:
		set := e.bind.Sets[local%len(e.bind.Sets)]
		if len(set) > 0 {
			return e.exactCPUs(set)
		}
		seat := NewAssignment(e.slots, slices.Sorted(slices.Values(mine)))
		seat.Unbound = true
		return seat
	case e.bind.RoundRobin && len(e.cpus) > 0:
		return e.exactCPUs(e.cpus[local%len(e.cpus) : local%len(e.cpus)+1])
	case e.groupOfSlot != nil:
		return e.widen(mine)
	}
	seat := NewAssignment(e.slots, slices.Sorted(slices.Values(mine)))
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

// widen adds the other free slots of the groups in which some slots are.
func (e *Binder) widen(mine []int) Assignment {
	var groups, wide []int
	for _, slot := range mine {
		switch g := e.groupOfSlot[slot]; {
		case g < 0:
			wide = append(wide, slot)
		case !slices.Contains(groups, g):
			groups = append(groups, g)
		}
	}
	alone := len(groups) == 1 && wide == nil
	if alone {
		if seat, known := e.assignmentOfGroup[groups[0]]; known {
			return seat
		}
	}
	for _, g := range groups {
		wide = append(wide, e.slotsOfGroup[g]...)
	}
	slices.Sort(wide)
	seat := NewAssignment(e.slots, wide)
	if alone {
		e.assignmentOfGroup[groups[0]] = seat
	}
	return seat
}

// exactCPUs is a seat with these CPUs, and the slots they touch.
func (e *Binder) exactCPUs(cpus []int) Assignment {
	var mine []int
	for _, cpu := range cpus {
		mine = append(mine, e.slotOfCPU[cpu])
	}
	seat := NewAssignment(e.slots, idset.New(mine...))
	seat.CPUs = idset.New(cpus...)
	return seat
}

// PutsRanksOnSameCPU reports whether ranks of one node are to have the same CPU of those that were
// written down for them.
func (b Binding) PutsRanksOnSameCPU(ranks int) bool {
	if b.Sets == nil {
		return false
	}
	seen := make(map[int]bool)
	for local := range ranks {
		for _, cpu := range idset.New(b.Sets[local%len(b.Sets)]...) {
			if seen[cpu] {
				return true
			}
			seen[cpu] = true
		}
	}
	return false
}
