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

// divide tells a candidate what the job says of its slots.
func (s *candidate) divide(req job.Request) {
	if len(req.Apps) > 0 && !s.CountThreads {
		s.Threads = req.Apps[0].HWThreads
	}
	s.capacity = s.CPUs()
	s.Reserve = max(s.Reserve, req.Reserve)
}

// byThreads reports whether a slot is a hardware thread.
func (s *candidate) byThreads() bool { return s.CountThreads || s.Threads != 0 }

// ordered are all units by a map, those in reserve too.
func (s *candidate) ordered(cpuMap []int) []pin.Unit {
	units := pin.Slots(s.Topology.List(s.CountThreads), cpuMap)
	if s.Threads != 0 {
		return pin.Threads(units, s.Threads)
	}
	return units
}

// slots are the units that ranks may have, in slot order by a map: the node's own or the user's.
func (s *candidate) slots(cpuMap []int) []pin.Unit {
	units := s.ordered(cpuMap)
	if s.Reserve == 0 {
		return units
	}
	reserved := s.reserved()
	return slices.DeleteFunc(slices.Clone(units), func(u pin.Unit) bool { return reserved[u.Number] })
}

// reserved are the units that ranks never get: the last ones of the node's own order.
func (s *candidate) reserved() pin.Busy {
	units := s.ordered(s.CPUMap)
	last := make(pin.Busy)
	for _, u := range units[max(0, len(units)-s.Reserve):] {
		last[u.Number] = true
	}
	return last
}

// taken are the units that processes have, of which so many are known to be on these CPUs. They
// are found as if none were in reserve; where threads count, a core with a busy one gives none.
func (s *candidate) taken(cpus []int, procs, seated int) pin.Busy {
	cores := pin.Slots(s.Topology.List(s.CountThreads), s.CPUMap)
	busy := pin.Taken(cores, cpus, procs)
	if seated > 0 { // where they sit is known: others' CPUs need not be guessed for them
		busy = pin.Taken(cores, cpus, 0)
		busy = pin.Taken(cores, cpus, len(busy)+procs-seated)
	}
	if s.Threads == 0 || busy == nil {
		return busy
	}
	cores = slices.DeleteFunc(slices.Clone(cores), func(u pin.Unit) bool { return !busy[u.Number] })
	threads := make(pin.Busy)
	for _, u := range pin.Threads(cores, s.Threads) {
		threads[u.Number] = true
	}
	return threads
}

// lost is how many slots others have. Slots that were written down are counted as they stand,
// those in reserve too.
func (s *candidate) lost() int {
	if s.Reserve == 0 || s.Slots > 0 || len(s.busy) == 0 {
		return len(s.busy)
	}
	reserved := s.reserved()
	lost := 0
	for number := range s.busy {
		if !reserved[number] {
			lost++
		}
	}
	return lost
}

// confines reports whether some section of a job keeps its ranks inside of NUMA nodes.
func confines(req job.Request) bool {
	return slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.NUMA.Confines() })
}

// numaFit is the check whether a node has a seat at all.
var numaFit = check{"numa-fit", func(s *candidate, w *requirement) string {
	switch {
	case !w.numa.Confines() || len(s.Topology.Cores) == 0:
		return ""
	case w.numa.Strict && s.NoMemBind:
		return "its bindMem is no"
	case s.seats(w.numa, w.threads) > 0:
		return ""
	}
	return fmt.Sprintf("%s leaves no %s together that are free", w.numa.Option(), text.Count(w.threads, "CPU"))
}}

// seats is how many ranks of a width find a seat on a candidate.
func (s *candidate) seats(c pin.Confinement, width int) int {
	slots := s.slots(s.CPUMap)
	pool := pin.NewNUMAPool(s.Topology, slots, pin.Free(slots, s.busy))
	pool.Confine(c)
	return pool.Room(width, 1)
}

// memoryFit is the check whether there is memory for a rank, and enough of it in huge pages. What is not known is no limit.
var memoryFit = check{"memory", func(s *candidate, w *requirement) string {
	huge := s.Memory.Huge
	switch {
	case w.memory == 0:
		return ""
	case s.Memory.Available > 0 && s.Memory.Available < w.memory:
		return fmt.Sprintf("%d MB available, a process needs %d by --mem-per-rank", s.Memory.Available>>20, w.memory>>20)
	case !w.huge || !huge.Known || huge.Room(w.memory) > 0:
		return ""
	case huge.Size == 0:
		return "its kernel has no huge pages, which a process needs by --mem-per-rank"
	}
	return fmt.Sprintf("%s of %d kB free, a process needs %d by --mem-per-rank", text.Count(int(huge.Free), "huge page"), huge.Size>>10, huge.Needs(w.memory))
}}

// pool sorts the free slots of a candidate as a layout or, where ranks stay inside of NUMA nodes,
// those want it.
func (l *dealing) pool(n *candidate, slots []pin.Unit, layout pin.Layout, busy pin.Busy, width int) *pin.Pool {
	free := pin.Free(slots, busy)
	if l.confined {
		return pin.NewNUMAPool(n.Topology, slots, free)
	}
	return pin.NewPool(n.Topology, slots, free, layout, width, n.byThreads())
}

// confine begins a section.
func (s *placement) confine(c pin.Confinement) {
	if s.layer == nil || !s.layer.confined {
		return
	}
	for _, pool := range s.layer.pools {
		if pool != nil {
			pool.Confine(c)
		}
	}
}
