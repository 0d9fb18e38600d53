package pin

import (
	"slices"
	"strings"

	"remshell/idset"
)

// maxDrawnCores is how many cores a picture has a character for each of; of a larger node
// it tells numbers.
const maxDrawnCores = 64

// DescribeCPUs tells people where some CPUs of a node are, ascending and in kernel numbers:
//
//	package 0 core 3 [...B/....|..../....]
//	package 0-1 core 0-39 [0-31|32-39]
//	core 1 cpu 5 [.b--]
//
// Cores have the numbers of placement.md 7.1; the CPUs are told where they are not all
// of their cores' usable ones. See Picture for the rest.
func (t Topology) DescribeCPUs(cpus []int) string {
	var packages, cores, theirs []int
	for number, core := range t.Cores {
		if coverageOf(core, cpus) == coversNone {
			continue
		}
		cores = append(cores, number)
		theirs = append(theirs, core.CPUs...)
		if core.Package >= 0 {
			packages = append(packages, core.Package)
		}
	}
	slices.Sort(theirs)
	text := labelNumbers("package ", idset.New(packages...)) + labelNumbers("core ", cores)
	if !slices.Equal(theirs, cpus) {
		text += labelNumbers("cpu ", cpus)
	}
	return text + t.DrawCores(cpus)
}

// labelNumbers is some numbers behind what they are of; nothing where there are none.
func labelNumbers(what string, numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	return what + idset.Text(numbers) + " "
}

// DrawCores draws the cores of a node and which of them some CPUs are: "|" stands between
// packages, "/" between NUMA nodes and caches inside of one. A core is B if all of its
// usable CPUs are among them, b if some are, "." if none is, and "-" if it has no usable
// one. Nodes of very many cores show the numbers of those that are, or ".".
func (t Topology) DrawCores(cpus []int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, group := range t.coreGroups() {
		if i > 0 {
			b.WriteByte(group.border)
		}
		if len(t.Cores) > maxDrawnCores {
			b.WriteString(t.coresWithCPU(group.cores, cpus))
			continue
		}
		for _, number := range group.cores {
			b.WriteByte(coverageMark(t.Cores[number], cpus))
		}
	}
	b.WriteByte(']')
	return b.String()
}

// coresWithCPU lists those of some cores that have one of the CPUs.
func (t Topology) coresWithCPU(cores, cpus []int) string {
	mine := slices.DeleteFunc(slices.Clone(cores), func(c int) bool { return coverageOf(t.Cores[c], cpus) == coversNone })
	if len(mine) == 0 {
		return "."
	}
	return idset.Text(mine)
}

// A coreGroup is cores that nothing separates.
type coreGroup struct {
	border byte // before it
	cores  []int
}

// coreGroups are the cores by package, and inside of one by NUMA node and cache, each in the
// order of its lowest core.
func (t Topology) coreGroups() []coreGroup {
	var all []coreGroup
	for _, inPackage := range splitByKey(t.coreNumbers(), func(c int) CoreLocation { return CoreLocation{Package: t.Cores[c].Package} }) {
		border := byte('|')
		for _, cores := range splitByKey(inPackage, func(c int) CoreLocation {
			return CoreLocation{NUMA: t.Cores[c].NUMA, L3: t.Cores[c].L3}
		}) {
			all = append(all, coreGroup{border, cores})
			border = '/'
		}
	}
	return all
}

// splitByKey parts cores by a key, in the order in which the keys first come.
func splitByKey(cores []int, key func(core int) CoreLocation) [][]int {
	at := make(map[CoreLocation]int)
	var parts [][]int
	for _, c := range cores {
		k := key(c)
		i, known := at[k]
		if !known {
			i = len(parts)
			at[k] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], c)
	}
	return parts
}

// coreNumbers lists the numbers of the cores.
func (t Topology) coreNumbers() []int {
	numbers := make([]int, len(t.Cores))
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// CountNUMANodes is how many NUMA nodes the cores are in, as far as is known.
func (t Topology) CountNUMANodes() int {
	known := make(map[int]bool)
	for i := range t.Cores {
		if t.Cores[i].NUMA >= 0 {
			known[t.Cores[i].NUMA] = true
		}
	}
	return len(known)
}

// A coverage is how much of a core some CPUs are.
type coverage int

const (
	coversNone coverage = iota
	coversSome
	coversAll
)

// coverageOf is how many of the CPUs of a core are in an ascending list.
func coverageOf(c Core, cpus []int) coverage {
	n := 0
	for _, list := range [][]int{c.CPUs, c.Unusable} {
		for _, cpu := range list {
			if idset.Set(cpus).Has(cpu) {
				n++
			}
		}
	}
	switch {
	case n == 0:
		return coversNone
	case n < len(c.CPUs):
		return coversSome
	}
	return coversAll
}

func coverageMark(c Core, cpus []int) byte {
	switch coverageOf(c, cpus) {
	case coversAll:
		return 'B'
	case coversSome:
		return 'b'
	}
	if len(c.CPUs) == 0 {
		return '-'
	}
	return '.'
}
