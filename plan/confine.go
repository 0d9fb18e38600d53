package plan

import (
	"fmt"
	"slices"

	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file keeps ranks inside of NUMA nodes (which-hosts.md 9.2) and within the memory there is
// (9.5): both are limits, which sharing CPUs does not lift.

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

// memoryFit is the check whether there is memory for a rank. What is not known is no limit.
var memoryFit = check{"memory", func(s *candidate, w *requirement) string {
	if w.memory == 0 || s.Memory.Available == 0 || s.Memory.Available >= w.memory {
		return ""
	}
	return fmt.Sprintf("%d MB available, a process needs %d by --mem-per-rank", s.Memory.Available>>20, w.memory>>20)
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
