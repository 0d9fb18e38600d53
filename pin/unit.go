package pin

import "slices"

// A Unit is the hardware of one slot: a core or a hardware thread.
type Unit struct {
	Number int   // of the core, or of the CPU if threads count (7.1)
	CPUs   []int // CPUs on which a rank with this slot may run, ascending
	NUMA   int   // -1 if unknown
}

// CountUnits returns the number of units, which is the CPU count S of the node (placement.md 0). threads says that
// units are hardware threads.
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

// CountUsableCores returns the number of cores with a usable CPU.
func (t Topology) CountUsableCores() int { return t.CountUnits(false) }

// CountUnitsPerCore returns the number of units if the first k threads of each core are units (see ThreadUnits). If k
// is negative, all threads are units.
func (t Topology) CountUnitsPerCore(k int) int {
	n := 0
	for i := range t.Cores {
		n += unitsOfThreads(len(t.Cores[i].CPUs), k)
	}
	return n
}

// unitsOfThreads returns how many threads of a core are units. A negative k means all.
func unitsOfThreads(threads, k int) int {
	if k < 0 {
		return threads
	}
	return min(threads, k)
}

// ThreadUnits makes units of the first k threads of each core, core by core in the order of cores
// (which-hosts.md 9.4). If k is negative, all threads become units. The unit numbers are the CPU numbers.
func ThreadUnits(cores []Unit, k int) []Unit {
	threads := make([]Unit, 0, len(cores)*max(1, k))
	for _, core := range cores {
		for i := range unitsOfThreads(len(core.CPUs), k) {
			threads = append(threads, Unit{core.CPUs[i], core.CPUs[i : i+1 : i+1], core.NUMA})
		}
	}
	return threads
}

// CPUNumberLimit returns the highest CPU number of the node plus 1, whether or not that CPU is usable.
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

// ListUnits returns the units of a node, ascending by number.
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

// HasUnit reports whether the node has a core with this number. If threads is true, it reports whether the node has
// such a CPU. The core or CPU need not be usable.
func (t Topology) HasUnit(number int, threads bool) bool {
	if !threads {
		return 0 <= number && number < len(t.Cores)
	}
	return slices.ContainsFunc(t.Cores, func(c Core) bool {
		return slices.Contains(c.CPUs, number) || slices.Contains(c.Unusable, number)
	})
}

// OrderByMap returns the units in slot order (placement.md 7.2). The units in cpuMap come first, in its order, each
// once. The other units follow. Numbers in cpuMap that are not units are skipped.
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
