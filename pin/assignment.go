package pin

import "slices"

// BusyUnits is the set of units that other jobs use, by unit number. A unit is a core, or a hardware thread if
// hardware threads count as CPUs.
type BusyUnits map[int]bool

// FindBusyUnits returns the units (cores or hardware threads) of a node that other jobs use. A unit is busy if cpus
// contains one of its CPUs. procs is the number of processes of other jobs. If fewer than procs units are busy, the
// first of the others are added until there are procs (placement.md 0, padding). slots are the units in default order.
func FindBusyUnits(slots []Unit, cpus []int, procs int) BusyUnits {
	if len(cpus) == 0 && procs == 0 {
		return nil
	}
	used := make(map[int]bool, len(cpus))
	for _, cpu := range cpus {
		used[cpu] = true
	}
	busy := make(BusyUnits)
	for _, u := range slots {
		if slices.ContainsFunc(u.CPUs, func(cpu int) bool { return used[cpu] }) {
			busy[u.Number] = true
		}
	}
	for _, u := range slots {
		if len(busy) >= procs {
			break
		}
		busy[u.Number] = true
	}
	return busy
}

// FreeSlots returns the indexes of the slots whose units are not busy, in ascending order.
func FreeSlots(slots []Unit, busy BusyUnits) []int {
	free := make([]int, 0, len(slots))
	for i, u := range slots {
		if !busy[u.Number] {
			free = append(free, i)
		}
	}
	return free
}

// An Assignment contains the slots, CPUs and memory of one rank on its node.
type Assignment struct {
	Slots   []int
	CPUs    []int // of all its slots, ascending
	Mems    []int // NUMA nodes of its cores, ascending; nil if not all are known
	Unbound bool  // the rank has these CPUs but is not bound to them
}

// NewAssignment returns the assignment of a rank (placement.md 7.4, 7.5). slots contains all slots of the node, and
// mine contains the rank's slots. The result shares memory with the arguments.
func NewAssignment(slots []Unit, mine []int) Assignment {
	assigned := Assignment{Slots: mine}
	if len(mine) == 1 {
		u := slots[mine[0]]
		assigned.CPUs = u.CPUs
		if u.NUMA >= 0 {
			assigned.Mems = []int{u.NUMA}
		}
		return assigned
	}
	known := true
	for _, slot := range mine {
		u := slots[slot]
		assigned.CPUs = append(assigned.CPUs, u.CPUs...)
		assigned.Mems = append(assigned.Mems, u.NUMA)
		known = known && u.NUMA >= 0
	}
	slices.Sort(assigned.CPUs)
	slices.Sort(assigned.Mems)
	assigned.Mems = slices.Compact(assigned.Mems)
	if !known {
		assigned.Mems = nil
	}
	return assigned
}
