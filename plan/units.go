package plan

import (
	"fmt"
	"slices"

	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file says what the slots of a node are (which-hosts.md 9.3, 9.4):
//
//	cores, by the node's map           0 1 2 3      busy ones and padding are found here
//	threads of each, if they count     0 4 1 5 2 6 3 7
//	without the last ones, in reserve  0 4 1 5 2 6
//	by the user's map, if that holds   2 6 1 5 0 4

// applySlotRules tells a candidate what the job says of its slots.
func (s *candidate) applySlotRules(req job.Request) {
	if len(req.Apps) > 0 && !s.CountThreads {
		s.CountedHWThreads = req.Apps[0].HWThreads
	}
	s.gateCPUs = s.CPUs()
	s.Reserve = max(s.Reserve, req.Reserve)
}

// slotsAreThreads reports whether a slot is a hardware thread.
func (s *candidate) slotsAreThreads() bool { return s.CountThreads || s.CountedHWThreads != 0 }

// unitsInMapOrder are all units by a map, those in reserve too.
func (s *candidate) unitsInMapOrder(cpuMap []int) []pin.Unit {
	units := pin.OrderByMap(s.Topology.ListUnits(s.CountThreads), cpuMap)
	if s.CountedHWThreads != 0 {
		return pin.ThreadUnits(units, s.CountedHWThreads)
	}
	return units
}

// slotsInMapOrder are the units that ranks may have, in slot order by a map: the node's own or the user's.
func (s *candidate) slotsInMapOrder(cpuMap []int) []pin.Unit {
	units := s.unitsInMapOrder(cpuMap)
	if s.Reserve == 0 {
		return units
	}
	reserved := s.reservedUnits()
	return slices.DeleteFunc(slices.Clone(units), func(u pin.Unit) bool { return reserved[u.Number] })
}

// reservedUnits are the units that ranks never get: the last ones of the node's own order.
func (s *candidate) reservedUnits() pin.BusyUnits {
	units := s.unitsInMapOrder(s.CPUMap)
	last := make(pin.BusyUnits)
	for _, u := range units[max(0, len(units)-s.Reserve):] {
		last[u.Number] = true
	}
	return last
}

// busyUnits are the units that processes have, of which so many are known to be on these CPUs. They
// are found as if none were in reserve; where threads count, a core with a busy one gives none.
func (s *candidate) busyUnits(cpus []int, procs, seated int) pin.BusyUnits {
	cores := pin.OrderByMap(s.Topology.ListUnits(s.CountThreads), s.CPUMap)
	busy := pin.FindBusyUnits(cores, cpus, procs)
	if seated > 0 { // where they sit is known: others' CPUs need not be guessed for them
		busy = pin.FindBusyUnits(cores, cpus, 0)
		busy = pin.FindBusyUnits(cores, cpus, len(busy)+procs-seated)
	}
	if s.CountedHWThreads == 0 || busy == nil {
		return busy
	}
	cores = slices.DeleteFunc(slices.Clone(cores), func(u pin.Unit) bool { return !busy[u.Number] })
	threads := make(pin.BusyUnits)
	for _, u := range pin.ThreadUnits(cores, s.CountedHWThreads) {
		threads[u.Number] = true
	}
	return threads
}

// slotsOfOthers is how many slots others have. Slots that were written down are counted as they stand,
// those in reserve too.
func (s *candidate) slotsOfOthers() int {
	if s.Reserve == 0 || s.Slots > 0 || len(s.busy) == 0 {
		return len(s.busy)
	}
	reserved := s.reservedUnits()
	lost := 0
	for number := range s.busy {
		if !reserved[number] {
			lost++
		}
	}
	return lost
}

// confinesToNUMA reports whether some section of a job keeps its ranks inside of NUMA nodes.
func confinesToNUMA(req job.Request) bool {
	return slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.NUMA.IsSet() })
}

// numaCheck is the check whether a node has a seat at all.
var numaCheck = nodeCheck{"numa-fit", func(s *candidate, w *requirement) string {
	switch {
	case !w.numa.IsSet() || len(s.Topology.Cores) == 0:
		return ""
	case w.numa.StrictMemory && s.NoMemBind:
		return "its bindMem is no"
	case s.numaCapacity(w.numa, w.threads) > 0:
		return ""
	}
	return fmt.Sprintf("%s leaves no %s together that are free", w.numa.Option(), text.Count(w.threads, "CPU"))
}}

// numaCapacity is how many ranks of a width find a seat on a candidate.
func (s *candidate) numaCapacity(c pin.Confinement, width int) int {
	slots := s.slotsInMapOrder(s.CPUMap)
	pool := pin.NewNUMAPool(s.Topology, slots, pin.FreeSlots(slots, s.busy))
	pool.SetConfinement(c)
	return pool.Capacity(width, 1)
}

// memoryCheck is the check whether there is memory for a rank, and enough of it in huge pages. What is not known is no limit.
var memoryCheck = nodeCheck{"memory", func(s *candidate, w *requirement) string {
	huge := s.Memory.HugePages
	switch {
	case w.memoryPerRank == 0:
		return ""
	case s.Memory.Available > 0 && s.Memory.Available < w.memoryPerRank:
		return fmt.Sprintf("%d MB available, a process needs %d by --mem-per-rank", s.Memory.Available>>20, w.memoryPerRank>>20)
	case !w.hugePages || !huge.Probed || huge.Capacity(w.memoryPerRank) > 0:
		return ""
	case huge.Size == 0:
		return "its kernel has no huge pages, which a process needs by --mem-per-rank"
	}
	return fmt.Sprintf("%s of %d kB free, a process needs %d by --mem-per-rank", text.Count(int(huge.Free), "huge page"), huge.Size>>10, huge.PagesFor(w.memoryPerRank))
}}

// newPool sorts the free slots of a candidate as a layout or, where ranks stay inside of NUMA nodes,
// those want it.
func (l *layoutState) newPool(n *candidate, slots []pin.Unit, layout pin.Layout, busy pin.BusyUnits, width int) *pin.Pool {
	free := pin.FreeSlots(slots, busy)
	if l.confinedToNUMA {
		return pin.NewNUMAPool(n.Topology, slots, free)
	}
	return pin.NewPool(n.Topology, slots, free, layout, width, n.slotsAreThreads())
}

// confineApp begins a section.
func (s *placement) confineApp(c pin.Confinement) {
	if s.layout == nil || !s.layout.confinedToNUMA {
		return
	}
	for _, pool := range s.layout.slotPools {
		if pool != nil {
			pool.SetConfinement(c)
		}
	}
}
