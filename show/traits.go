package show

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
)

// alikeTraits reports whether two nodes can be told of together. A speed that was measured says little of the
// node, and what is built in of memory is told of all in the line above.
func alikeTraits(a, b job.Node) bool {
	x, y := a.Traits, b.Traits
	return x.Quality == y.Quality && (x.Speed == y.Speed || x.Quality == job.Measured) && x.NetSpeed == y.NetSpeed && x.CPUModel == y.CPUModel &&
		slices.Equal(x.Networks, y.Networks) && slices.Equal(x.GPUModels, y.GPUModels)
}

// attributes tells of what sets of nodes are made, under the names by which they are asked for
// (which-hosts.md 2); nothing if nobody has looked.
func attributes(kind []job.Node) string {
	var numbers, words []string
	add := func(to *[]string, name, value string) {
		if value != "" {
			*to = append(*to, name+" "+Clean(value))
		}
	}
	t := kind[0].Traits
	add(&numbers, "PROCSPEED", speed(kind))
	if t.CPUModel != "" || t.Speed > 0 || t.Networks != nil { // somebody has looked
		add(&numbers, "MEMORY", between(kind, "MB", func(n job.Node) int { return int(n.Memory.Installed() >> 20) }))
	}
	add(&numbers, "NETSPEED", between(kind, "Mb/s", func(n job.Node) int { return n.Traits.NetSpeed }))
	add(&numbers, "CPUMODEL", t.CPUModel)
	add(&words, "NETWORK", strings.Join(t.Networks, " "))
	add(&words, "GPUMODEL", strings.Join(t.GPUModels, " "))
	text := ""
	for _, line := range [][]string{numbers, words} {
		if line != nil {
			text += "  " + strings.Join(line, "  ") + "\n"
		}
	}
	return text
}

// speed is that of the slowest CPU, and how it was found.
func speed(kind []job.Node) string {
	text := between(kind, "MHz", func(n job.Node) int { return n.Traits.Speed })
	if text != "" {
		text += " (" + string(kind[0].Traits.Quality) + ")"
	}
	return text
}

// between is the number of all of these nodes, from the least to the most; empty: unknown.
func between(kind []job.Node, unit string, of func(job.Node) int) string {
	least, most := of(kind[0]), of(kind[0])
	for _, n := range kind {
		least, most = min(least, of(n)), max(most, of(n))
	}
	switch {
	case most == 0:
		return ""
	case least == most:
		return fmt.Sprintf("%d %s", most, unit)
	}
	return fmt.Sprintf("%d-%d %s", least, most, unit)
}
