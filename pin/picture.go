package pin

import (
	"slices"
	"strings"

	"remshell/idset"
)

// mostDrawn is how many cores a picture has a character for each of; of a larger node
// it tells numbers.
const mostDrawn = 64

// Describe tells people where some CPUs of a node are, ascending and in kernel numbers:
//
//	package 0 core 3 [...B/....|..../....]
//	package 0-1 core 0-39 [0-31|32-39]
//	core 1 cpu 5 [.b--]
//
// Cores have the numbers of placement.md 7.1; the CPUs are told where they are not all
// of their cores' usable ones. See Picture for the rest.
func (t Topology) Describe(cpus []int) string {
	var packages, cores, theirs []int
	for number, core := range t.Cores {
		if covered(core, cpus) == none {
			continue
		}
		cores = append(cores, number)
		theirs = append(theirs, core.CPUs...)
		if core.Package >= 0 {
			packages = append(packages, core.Package)
		}
	}
	slices.Sort(theirs)
	text := phrase("package ", idset.Of(packages...)) + phrase("core ", cores)
	if !slices.Equal(theirs, cpus) {
		text += phrase("cpu ", cpus)
	}
	return text + t.Picture(cpus)
}

// phrase is some numbers behind what they are of; nothing where there are none.
func phrase(what string, numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	return what + idset.Text(numbers) + " "
}

// Picture draws the cores of a node and which of them some CPUs are: "|" stands between
// packages, "/" between NUMA nodes and caches inside of one. A core is B if all of its
// usable CPUs are among them, b if some are, "." if none is, and "-" if it has no usable
// one. Nodes of very many cores show the numbers of those that are, or ".".
func (t Topology) Picture(cpus []int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, group := range t.groups() {
		if i > 0 {
			b.WriteByte(group.border)
		}
		if len(t.Cores) > mostDrawn {
			b.WriteString(t.members(group.cores, cpus))
			continue
		}
		for _, number := range group.cores {
			b.WriteByte(mark(t.Cores[number], cpus))
		}
	}
	b.WriteByte(']')
	return b.String()
}

// members lists those of some cores that have one of the CPUs.
func (t Topology) members(cores, cpus []int) string {
	mine := slices.DeleteFunc(slices.Clone(cores), func(c int) bool { return covered(t.Cores[c], cpus) == none })
	if len(mine) == 0 {
		return "."
	}
	return idset.Text(mine)
}

// A group is cores that nothing separates.
type group struct {
	border byte // before it
	cores  []int
}

// groups are the cores by package, and inside of one by NUMA node and cache, each in the
// order of its lowest core.
func (t Topology) groups() []group {
	var all []group
	for _, inPackage := range split(t.all(), func(c int) Place { return Place{Package: t.Cores[c].Package} }) {
		border := byte('|')
		for _, cores := range split(inPackage, func(c int) Place {
			return Place{NUMA: t.Cores[c].NUMA, L3: t.Cores[c].L3}
		}) {
			all = append(all, group{border, cores})
			border = '/'
		}
	}
	return all
}

// split parts cores by a key, in the order in which the keys first come.
func split(cores []int, key func(core int) Place) [][]int {
	at := make(map[Place]int)
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

// all lists the numbers of the cores.
func (t Topology) all() []int {
	numbers := make([]int, len(t.Cores))
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// Memories is how many NUMA nodes the cores are in, as far as is known.
func (t Topology) Memories() int {
	known := make(map[int]bool)
	for i := range t.Cores {
		if t.Cores[i].NUMA >= 0 {
			known[t.Cores[i].NUMA] = true
		}
	}
	return len(known)
}

// A share is how much of a core some CPUs are.
type share int

const (
	none share = iota
	some
	whole
)

// covered is how many of the CPUs of a core are in an ascending list.
func covered(c Core, cpus []int) share {
	n := 0
	for _, list := range [][]int{c.CPUs, c.Shut} {
		for _, cpu := range list {
			if idset.Set(cpus).Has(cpu) {
				n++
			}
		}
	}
	switch {
	case n == 0:
		return none
	case n < len(c.CPUs):
		return some
	}
	return whole
}

func mark(c Core, cpus []int) byte {
	switch covered(c, cpus) {
	case whole:
		return 'B'
	case some:
		return 'b'
	}
	if len(c.CPUs) == 0 {
		return '-'
	}
	return '.'
}
