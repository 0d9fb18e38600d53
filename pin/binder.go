package pin

import (
	"slices"

	"remshell/idset"
)

// A Binder computes the CPUs to which the ranks of one node are bound (--bind-to). These may be the CPUs of
// the rank's own slots, more CPUs, or fewer.
type Binder struct {
	bind              Binding
	slots             []Unit
	groupOfSlot       []int              // by slot: the group of objects that contains it; -1 if there is none
	slotsOfGroup      [][]int            // by group: its free slots, ascending
	assignmentOfGroup map[int]Assignment // by group: the assignment of ranks that use only this group
	slotOfCPU         map[int]int        // by free CPU: its slot
	cpus              []int              // of all free slots, ascending
}

// NewBinder returns a Binder for a node. CheckLayout must have accepted the node and the layout. free lists the
// free slots of the node.
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

// bindAllTo makes the binder bind every rank to all of the given slots.
func (e *Binder) bindAllTo(slots []int) {
	e.groupOfSlot = make([]int, len(e.slots))
	e.slotsOfGroup = [][]int{slices.Sorted(slices.Values(slots))}
}

// groupByObject groups the free slots by the hardware objects to which ranks are bound.
func (e *Binder) groupByObject(t Topology, free []int) {
	firsts, group := t.objects(e.bind.Level, e.bind.Count)
	e.groupOfSlot, e.slotsOfGroup = t.groupOfSlots(e.slots, e.bind.Level, group), make([][]int, len(firsts))
	for _, slot := range free {
		if g := e.groupOfSlot[slot]; g >= 0 {
			e.slotsOfGroup[g] = append(e.slotsOfGroup[g], slot)
		}
	}
}

// listFreeCPUs records which CPUs are free, and to which slots they belong.
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

// UsableCPUs returns the usable CPUs of all cores, in ascending order.
func (t Topology) UsableCPUs() []int {
	var cpus []int
	for i := range t.Cores {
		cpus = append(cpus, t.Cores[i].CPUs...)
	}
	slices.Sort(cpus)
	return cpus
}

// Bind returns the CPUs and memory to which a rank must be bound. local is the number of the rank on the node, and mine
// contains the rank's slots.
func (e *Binder) Bind(local int, mine []int) Assignment {
	switch {
	case e.bind.Sets != nil:
		set := e.bind.Sets[local%len(e.bind.Sets)]
		if len(set) > 0 {
			return e.exactCPUs(set)
		}
		assigned := NewAssignment(e.slots, slices.Sorted(slices.Values(mine)))
		assigned.Unbound = true
		return assigned
	case e.bind.RoundRobin && len(e.cpus) > 0:
		return e.exactCPUs(e.cpus[local%len(e.cpus) : local%len(e.cpus)+1])
	case e.groupOfSlot != nil:
		return e.widen(mine)
	}
	assigned := NewAssignment(e.slots, slices.Sorted(slices.Values(mine)))
	if e.bind.Level == ByThread {
		var first []int
		for _, slot := range assigned.Slots {
			first = append(first, e.slots[slot].CPUs[0])
		}
		slices.Sort(first)
		assigned.CPUs = first
	}
	return assigned
}

// widen returns an assignment with more slots for a rank. mine contains the rank's own slots. The assignment has all
// free slots of the groups to which the slots in mine belong.
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
		if assigned, known := e.assignmentOfGroup[groups[0]]; known {
			return assigned
		}
	}
	for _, g := range groups {
		wide = append(wide, e.slotsOfGroup[g]...)
	}
	slices.Sort(wide)
	assigned := NewAssignment(e.slots, wide)
	if alone {
		e.assignmentOfGroup[groups[0]] = assigned
	}
	return assigned
}

// exactCPUs returns an assignment with exactly the given CPUs. Its slots are all slots that contain one of these
// CPUs.
func (e *Binder) exactCPUs(cpus []int) Assignment {
	var mine []int
	for _, cpu := range cpus {
		mine = append(mine, e.slotOfCPU[cpu])
	}
	assigned := NewAssignment(e.slots, idset.New(mine...))
	assigned.CPUs = idset.New(cpus...)
	return assigned
}

// PutsRanksOnSameCPU reports whether the sets of a "user:" binding would give the same CPU to two ranks of one node.
// ranks is the number of ranks on the node.
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
