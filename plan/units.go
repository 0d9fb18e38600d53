package plan

import (
	"fmt"
	"slices"

	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file determines the slots of a node (which-hosts.md 9.3, 9.4). A unit is a core or a hardware
// thread:
//
//	cores, by the node's map            0 1 2 3      busyUnits finds the busy units here
//	their threads, if threads count     0 4 1 5 2 6 3 7
//	without those that are reserved     0 4 1 5 2 6
//	by the user's map, if it applies    2 6 1 5 0 4

// applySlotRules applies two settings of the request to a candidate: whether slots are hardware threads, and
// how many slots remain free.
func (s *candidate) applySlotRules(req job.Request) {
	if len(req.Apps) > 0 && !s.CountThreads {
		s.CountedHWThreads = req.Apps[0].HWThreads
	}
	s.gateCPUs = s.CPUs()
	s.Reserve = max(s.Reserve, req.Reserve)
}

// slotsAreThreads reports whether a slot of this node is a hardware thread and not a core.
func (s *candidate) slotsAreThreads() bool { return s.CountThreads || s.CountedHWThreads != 0 }

// unitsInMapOrder returns all units (cores, or hardware threads if slots are threads) in the order of a CPU map. The
// result includes reserved units.
func (s *candidate) unitsInMapOrder(cpuMap []int) []pin.Unit {
	units := pin.OrderByMap(s.Topology.ListUnits(s.CountThreads), cpuMap)
	if s.CountedHWThreads != 0 {
		return pin.ThreadUnits(units, s.CountedHWThreads)
	}
	return units
}

// slotsInMapOrder returns the units (cores or hardware threads) that ranks may use, in the order of a CPU
// map. The map is the node's own or the user's.
func (s *candidate) slotsInMapOrder(cpuMap []int) []pin.Unit {
	units := s.unitsInMapOrder(cpuMap)
	if s.Reserve == 0 {
		return units
	}
	reserved := s.reservedUnits()
	return slices.DeleteFunc(slices.Clone(units), func(u pin.Unit) bool { return reserved[u.Number] })
}

// reservedUnits returns the units (cores or hardware threads) that no rank may use. These are the last units in the
// node's own order.
func (s *candidate) reservedUnits() pin.BusyUnits {
	units := s.unitsInMapOrder(s.CPUMap)
	last := make(pin.BusyUnits)
	for _, u := range units[max(0, len(units)-s.Reserve):] {
		last[u.Number] = true
	}
	return last
}

// busyUnits returns the busy units (cores, or hardware threads if slots are threads), even if they are reserved. cpus
// contains the CPUs that other jobs are known to use. procs is the number of processes of other jobs, and located is
// how many of these run on cpus. If slots are threads, all threads of a busy core are busy.
func (s *candidate) busyUnits(cpus []int, procs, located int) pin.BusyUnits {
	cores := pin.OrderByMap(s.Topology.ListUnits(s.CountThreads), s.CPUMap)
	busy := pin.FindBusyUnits(cores, cpus, procs)
	if located > 0 { // the CPUs of these processes are known, so they are not guessed
		busy = pin.FindBusyUnits(cores, cpus, 0)
		busy = pin.FindBusyUnits(cores, cpus, len(busy)+procs-located)
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

// slotsOfOthers returns how many slots are used by processes of other jobs. Busy reserved units are included only if
// the user has written a number of slots.
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

// confinesToNUMA reports whether an app of the job requires that each rank stays inside one NUMA node.
func confinesToNUMA(req job.Request) bool {
	return slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.NUMA.IsSet() })
}

// numaCheck rejects a node if no rank fits into any of its NUMA nodes.
var numaCheck = nodeCheck{"numa-fit", func(s *candidate, w *requirement) string {
	switch {
	case !w.numa.IsSet() || len(s.Topology.Cores) == 0:
		return ""
	case w.numa.StrictMemory && s.NoMemBind:
		return "memory binding is switched off on the host (bindMem = no)"
	case s.numaCapacity(w.numa, w.threads) > 0:
		return ""
	}
	return fmt.Sprintf("no NUMA node that %s allows has %s", w.numa.Option(), text.Count(w.threads, "free CPU"))
}}

// numaCapacity returns how many ranks fit into the NUMA nodes of a candidate, if each rank needs width slots.
func (s *candidate) numaCapacity(c pin.Confinement, width int) int {
	slots := s.slotsInMapOrder(s.CPUMap)
	pool := pin.NewNUMAPool(s.Topology, slots, pin.FreeSlots(slots, s.busy))
	pool.SetConfinement(c)
	return pool.Capacity(width, 1)
}

// memoryCheck rejects a node that has too little memory, or too few huge pages, for one rank. A node whose
// memory is unknown is not rejected.
var memoryCheck = nodeCheck{"memory", func(s *candidate, w *requirement) string {
	huge := s.Memory.HugePages
	switch {
	case w.memoryPerRank == 0:
		return ""
	case s.Memory.Available > 0 && s.Memory.Available < w.memoryPerRank:
		return fmt.Sprintf("the host has %d MB of memory available, but each rank needs %d MB by --mem-per-rank", s.Memory.Available>>20, w.memoryPerRank>>20)
	case !w.hugePages || !huge.Probed || huge.Capacity(w.memoryPerRank) > 0:
		return ""
	case huge.Size == 0:
		return "the kernel of the host has no huge pages, which each rank needs because of --mem-per-rank"
	}
	return fmt.Sprintf("the host has %s of %d kB, but each rank needs %d by --mem-per-rank", text.Count(int(huge.Free), "free huge page"), huge.Size>>10, huge.PagesFor(w.memoryPerRank))
}}

// newPool returns a pool of the free slots of a candidate, in the order of the layout. If ranks must stay inside NUMA
// nodes, the slots are grouped by NUMA node.
func (l *layoutState) newPool(n *candidate, slots []pin.Unit, layout pin.Layout, busy pin.BusyUnits, width int) *pin.Pool {
	free := pin.FreeSlots(slots, busy)
	if l.confinedToNUMA {
		return pin.NewNUMAPool(n.Topology, slots, free)
	}
	return pin.NewPool(n.Topology, slots, free, layout, width, n.slotsAreThreads())
}

// confineApp sets, in all pools of slots, how the app that is placed next is confined to NUMA nodes.
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
