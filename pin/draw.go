package pin

import (
	"slices"
	"strings"

	"remshell/idset"
)

// maxDrawnCores is the maximum number of cores that are drawn as characters. For a larger node, the numbers of the
// marked cores are listed instead.
const maxDrawnCores = 64

// DescribeCPUs returns a readable text that says where some CPUs of a node are. cpus contains their kernel numbers in
// ascending order. Examples:
//
//	package 0 core 3 [...B/....|..../....]
//	package 0-1 core 0-39 [0-31|32-39]
//	core 1 cpu 5 [.b--]
//
// Cores are numbered as in placement.md 7.1. CPUs are listed only if cpus leaves out usable CPUs of their cores.
// DrawCores explains the brackets.
func (t Topology) DescribeCPUs(cpus []int) string {
	var packages, cores, ofCores []int
	for number, core := range t.Cores {
		if coverageOf(core, cpus) == coversNone {
			continue
		}
		cores = append(cores, number)
		ofCores = append(ofCores, core.CPUs...)
		if core.Package >= 0 {
			packages = append(packages, core.Package)
		}
	}
	slices.Sort(ofCores)
	text := labelNumbers("package ", idset.New(packages...)) + labelNumbers("core ", cores)
	if !slices.Equal(ofCores, cpus) {
		text += labelNumbers("cpu ", cpus)
	}
	return text + t.DrawCores(cpus)
}

// labelNumbers returns label followed by the numbers and a space. It returns "" if there are no numbers.
func labelNumbers(label string, numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	return label + idset.Text(numbers) + " "
}

// DrawCores draws the cores of a node, one character for each core, and marks the cores of some CPUs. "|" separates
// packages, and "/" separates NUMA nodes and caches in a package. A core is "B" if all its usable CPUs are in cpus, "b"
// if some but not all are, "." if none is, and "-" if the core has no usable CPU. For nodes with more than 64 cores,
// DrawCores instead writes the numbers of the marked cores between the separators, or "." where there are none.
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

// coresWithCPU returns a string such as "0-3" with the numbers of the cores that have at least one of the CPUs. cores
// contains the core numbers to check. It returns "." if no core has one of the CPUs.
func (t Topology) coresWithCPU(cores, cpus []int) string {
	mine := slices.DeleteFunc(slices.Clone(cores), func(c int) bool { return coverageOf(t.Cores[c], cpus) == coversNone })
	if len(mine) == 0 {
		return "."
	}
	return idset.Text(mine)
}

// A coreGroup is a group of cores between which no separator is drawn.
type coreGroup struct {
	border byte // separator before the group
	cores  []int
}

// coreGroups groups the cores by package, and inside a package by NUMA node and cache. The groups are in the order
// of their lowest core.
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

// splitByKey groups cores by a key. The groups are in the order in which their keys first occur.
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

// coreNumbers returns the numbers of all cores of the node.
func (t Topology) coreNumbers() []int {
	numbers := make([]int, len(t.Cores))
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// CountNUMANodes returns the number of known NUMA nodes.
func (t Topology) CountNUMANodes() int {
	known := make(map[int]bool)
	for i := range t.Cores {
		if t.Cores[i].NUMA >= 0 {
			known[t.Cores[i].NUMA] = true
		}
	}
	return len(known)
}

// A coverage says whether all, some or none of the CPUs of a core are in a list.
type coverage int

const (
	coversNone coverage = iota
	coversSome
	coversAll
)

// coverageOf returns whether all, some or none of the CPUs of a core are in cpus, which is in ascending
// order.
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
