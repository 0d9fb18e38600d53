package pin

import (
	"cmp"
	"slices"
	"strings"

	"remshell/idset"
)

// Locality describes where some CPUs of a node are, in the format of PMIx (pmix-wire.md 7.2):
//
//	SK0:L30:L20:L10:CR0-1:HT0-3:NM0
//
// The parts are socket, caches, core, hardware thread and NUMA node. Each part contains the logical indexes that hwloc
// assigns to the objects that contain the CPUs. A level that the node does not report is left out. The L1 cache has the
// index of the core.
func (t Topology) Locality(cpus []int) string {
	order := t.logicalOrder()
	words := make([]string, 0, 7)
	for _, level := range []struct {
		word string
		Level
	}{{"SK", ByPackage}, {"L3", ByL3}, {"L2", ByL2}, {"L1", ByCore}, {"CR", ByCore}, {"HT", ByThread}, {"NM", ByNUMA}} {
		if touched := t.touchedObjects(cpus, order, level.Level); len(touched) > 0 {
			words = append(words, level.word+idset.Text(touched))
		}
	}
	return strings.Join(words, ":")
}

// logicalOrder returns the cores in logical order: all cores of one object, such as a package, follow one another, and
// so do the cores of each object inside it. Cores are sorted by the lowest CPUs of the objects that contain them,
// outermost object first.
func (t Topology) logicalOrder() []int {
	paths, order := make([][]int, len(t.Cores)), make([]int, len(t.Cores))
	firsts := make(map[[2]int]int) // first CPU of an object, by level and number
	for i := range t.Cores {
		order[i] = i
		for _, l := range outerLevels {
			if key := [2]int{int(l), t.objectOfCore(i, l)}; key[1] >= 0 {
				if _, known := firsts[key]; !known {
					firsts[key] = t.Cores[i].lowestCPU()
				}
				paths[i] = append(paths[i], firsts[key])
			}
		}
		slices.Sort(paths[i])
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(slices.Compare(paths[a], paths[b]), cmp.Compare(a, b))
	})
	return order
}

// outerLevels lists the levels of objects that may contain several cores.
var outerLevels = []Level{ByPackage, ByNUMA, ByL3, ByL2}

// touchedObjects returns the logical indexes of the objects at a level that contain at least one of the CPUs, in
// ascending order.
func (t Topology) touchedObjects(cpus, order []int, l Level) []int {
	var indexes []int
	index := make(map[int]int) // logical index of an object, by its number
	for _, i := range order {
		for _, cpu := range t.Cores[i].AllCPUs() {
			n := t.objectOfCore(i, l)
			if l == ByThread {
				n = cpu
			}
			if n < 0 {
				continue
			}
			if _, known := index[n]; !known {
				index[n] = len(index)
			}
			if slices.Contains(cpus, cpu) {
				indexes = append(indexes, index[n])
			}
		}
	}
	return idset.New(indexes...)
}
