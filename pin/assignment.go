package pin

import "slices"

// A BusyUnits is a set of units, by their numbers, that other jobs have.
type BusyUnits map[int]bool

// FindBusyUnits finds the busy units of a node: those of which a live job has a CPU and,
// where more processes are known to run than CPUs of theirs, further units until
// the numbers agree (section 0, padding). slots are the units in default order.
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

// FreeSlots lists the slots whose units are not busy, ascending.
func FreeSlots(slots []Unit, busy BusyUnits) []int {
	free := make([]int, 0, len(slots))
	for i, u := range slots {
		if !busy[u.Number] {
			free = append(free, i)
		}
	}
	return free
}

// An Assignment is what one rank gets of a node.
type Assignment struct {
	Slots   []int
	CPUs    []int // of all its slots, ascending
	Mems    []int // the NUMA nodes of its cores, ascending; nil: not all are known
	Unbound bool  // the rank has them, and is not bound to them
}

// NewAssignment joins some slots of a node (7.4, 7.5). The result shares memory with its
// arguments.
func NewAssignment(slots []Unit, mine []int) Assignment {
	seat := Assignment{Slots: mine}
	if len(mine) == 1 {
		u := slots[mine[0]]
		seat.CPUs = u.CPUs
		if u.NUMA >= 0 {
			seat.Mems = []int{u.NUMA}
		}
		return seat
	}
	known := true
	for _, slot := range mine {
		u := slots[slot]
		seat.CPUs = append(seat.CPUs, u.CPUs...)
		seat.Mems = append(seat.Mems, u.NUMA)
		known = known && u.NUMA >= 0
	}
	slices.Sort(seat.CPUs)
	slices.Sort(seat.Mems)
	seat.Mems = slices.Compact(seat.Mems)
	if !known {
		seat.Mems = nil
	}
	return seat
}
