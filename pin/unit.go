package pin

import "slices"

// A Unit is the hardware of one slot: a core or a hardware thread.
type Unit struct {
	Number int   // of the core, or of the CPU if threads count (7.1)
	CPUs   []int // CPUs on which a rank with this slot may run, ascending
	NUMA   int   // -1 if unknown
}

// CountUnits returns the number of units of the node: hardware threads if threads is true, otherwise cores. This is the
// number S of placement.md 0.
func (t Topology) CountUnits(threads bool) int {
	n := 0
	for i := range t.Cores {
		switch usable := len(t.Cores[i].CPUs); {
		case threads:
			n += usable
		case usable > 0:
			n++
		}
	}
	return n
}

// CountUsableCores returns the number of cores that have at least one usable CPU.
func (t Topology) CountUsableCores() int { return t.CountUnits(false) }

// CountUnitsPerCore returns the number of units if only the first k hardware threads of each core are units (see
// ThreadUnits). If k is negative, all threads are units.
func (t Topology) CountUnitsPerCore(k int) int {
	n := 0
	for i := range t.Cores {
		n += unitsOfThreads(len(t.Cores[i].CPUs), k)
	}
	return n
}

// unitsOfThreads returns how many units a core with the given number of threads has. At most k threads of a core are
// units. If k is negative, all threads are units.
func unitsOfThreads(threads, k int) int {
	if k < 0 {
		return threads
	}
	return min(threads, k)
}

// ThreadUnits returns units that are the first k hardware threads of each core, in the order of cores
// (which-hosts.md 9.4). If k is negative, all threads become units. The number of each unit is its CPU number.
func ThreadUnits(cores []Unit, k int) []Unit {
	threads := make([]Unit, 0, len(cores)*max(1, k))
	for _, core := range cores {
		for i := range unitsOfThreads(len(core.CPUs), k) {
			threads = append(threads, Unit{core.CPUs[i], core.CPUs[i : i+1 : i+1], core.NUMA})
		}
	}
	return threads
}

// CPUNumberLimit returns the highest CPU number of the node plus 1. CPUs that are not usable count, too.
func (t Topology) CPUNumberLimit() int {
	n := 0
	for i := range t.Cores {
		for _, cpus := range [][]int{t.Cores[i].CPUs, t.Cores[i].Unusable} {
			if len(cpus) > 0 {
				n = max(n, cpus[len(cpus)-1]+1)
			}
		}
	}
	return n
}

// ListUnits returns the units of a node in ascending order of their numbers. If threads is true, units are hardware
// threads.
func (t Topology) ListUnits(threads bool) []Unit {
	units := make([]Unit, 0, len(t.Cores))
	for number, core := range t.Cores {
		if !threads && len(core.CPUs) > 0 {
			units = append(units, Unit{number, core.CPUs, core.NUMA})
		}
		for i := range core.CPUs {
			if threads {
				units = append(units, Unit{core.CPUs[i], core.CPUs[i : i+1], core.NUMA})
			}
		}
	}
	if threads {
		slices.SortFunc(units, func(a, b Unit) int { return a.Number - b.Number })
	}
	return units
}

// HasUnit reports whether the node has a core with this number or, if threads is true, a CPU with this number. The
// core or CPU need not be usable.
func (t Topology) HasUnit(number int, threads bool) bool {
	if !threads {
		return 0 <= number && number < len(t.Cores)
	}
	return slices.ContainsFunc(t.Cores, func(c Core) bool {
		return slices.Contains(c.CPUs, number) || slices.Contains(c.Unusable, number)
	})
}

// OrderByMap returns the units in slot order (placement.md 7.2). The units whose numbers are in cpuMap come first, in
// the order of cpuMap and without duplicates. The other units follow. Numbers in cpuMap that belong to no unit are
// ignored.
func OrderByMap(units []Unit, cpuMap []int) []Unit {
	if len(cpuMap) == 0 {
		return units
	}
	index := make(map[int]int, len(units))
	for i, u := range units {
		index[u.Number] = i
	}
	order := make([]Unit, 0, len(units))
	taken := make([]bool, len(units))
	for _, number := range cpuMap {
		if i, is := index[number]; is && !taken[i] {
			taken[i] = true
			order = append(order, units[i])
		}
	}
	for i, u := range units {
		if !taken[i] {
			order = append(order, u)
		}
	}
	return order
}
