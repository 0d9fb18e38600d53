package pin

import "slices"

// A Unit is what one slot of a node stands for.
type Unit struct {
	Number int   // of the core, or of the CPU where threads count (7.1)
	CPUs   []int // what a rank may run on that has the slot, ascending
	NUMA   int   // -1: unknown
}

// CountUnits is the number of units: the CPU count S of the node (section 0). threads
// says that hardware threads are CPUs.
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

// CountUsableCores is the number of cores with a usable CPU.
func (t Topology) CountUsableCores() int { return t.CountUnits(false) }

// CountUnitsPerCore is how many units there are if the first k threads of each core are units, as Threads has
// it; k below 0: all threads.
func (t Topology) CountUnitsPerCore(k int) int {
	n := 0
	for i := range t.Cores {
		n += unitsOfThreads(len(t.Cores[i].CPUs), k)
	}
	return n
}

// unitsOfThreads is how many of some threads are units.
func unitsOfThreads(threads, k int) int {
	if k < 0 {
		return threads
	}
	return min(threads, k)
}

// ThreadUnits makes units of the first k threads of each core, core by core in the order of the units,
// which are cores (which-hosts.md 9.4); k below 0: of all threads. Their numbers are those of their
// CPUs.
func ThreadUnits(cores []Unit, k int) []Unit {
	threads := make([]Unit, 0, len(cores)*max(1, k))
	for _, core := range cores {
		for i := range unitsOfThreads(len(core.CPUs), k) {
			threads = append(threads, Unit{core.CPUs[i], core.CPUs[i : i+1 : i+1], core.NUMA})
		}
	}
	return threads
}

// CPUNumberLimit is one more than the highest number of a CPU of the node, usable or not.
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

// ListUnits lists the units of a node, ascending by number.
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

// HasUnit reports whether the node has a core, or a CPU where threads count, of this
// number, be it usable or not.
func (t Topology) HasUnit(number int, threads bool) bool {
	if !threads {
		return 0 <= number && number < len(t.Cores)
	}
	return slices.ContainsFunc(t.Cores, func(c Core) bool {
		return slices.Contains(c.CPUs, number) || slices.Contains(c.Unusable, number)
	})
}

// OrderByMap returns the units in slot order (7.2): those of the map in its order, each
// once, then the others. Numbers that are no units are passed over.
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
