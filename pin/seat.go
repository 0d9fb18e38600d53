package pin

import "slices"

// A Busy is a set of units, by their numbers, that other jobs have.
type Busy map[int]bool

// Taken finds the busy units of a node: those of which a live job has a CPU and,
// where more processes are known to run than CPUs of theirs, further units until
// the numbers agree (section 0, padding). slots are the units in default order.
func Taken(slots []Unit, cpus []int, procs int) Busy {
	if len(cpus) == 0 && procs == 0 {
		return nil
	}
	used := make(map[int]bool, len(cpus))
	for _, cpu := range cpus {
		used[cpu] = true
	}
	busy := make(Busy)
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

// Free lists the slots whose units are not busy, ascending.
func Free(slots []Unit, busy Busy) []int {
	free := make([]int, 0, len(slots))
	for i, u := range slots {
		if !busy[u.Number] {
			free = append(free, i)
		}
	}
	return free
}

// A Seat is what one rank gets of a node.
type Seat struct {
	Slots []int
	CPUs  []int // of all its slots, ascending
	Mems  []int // the NUMA nodes of its cores, ascending; nil: not all are known
	Loose bool  // the rank has them, and is not bound to them
}

// NewSeat joins some slots of a node (7.4, 7.5). The result shares memory with its
// arguments.
func NewSeat(slots []Unit, mine []int) Seat {
	seat := Seat{Slots: mine}
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
