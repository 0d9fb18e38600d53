package format

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
)

// attributesAlike reports whether two nodes can be told of together. A speed that was measured says little of the
// node, and what is built in of memory is told of all in the line above.
func attributesAlike(a, b job.Node) bool {
	x, y := a.ProbedAttributes, b.ProbedAttributes
	return x.SpeedQuality == y.SpeedQuality && (x.Speed == y.Speed || x.SpeedQuality == job.SpeedMeasured) && x.NetSpeed == y.NetSpeed && x.CPUModel == y.CPUModel &&
		slices.Equal(x.Networks, y.Networks) && slices.Equal(x.GPUModels, y.GPUModels)
}

// formatAttributes tells of what sets of nodes are made, under the names by which they are asked for
// (which-hosts.md 2); nothing if nobody has looked.
func formatAttributes(kind []job.Node) string {
	var numbers, words []string
	add := func(to *[]string, name, value string) {
		if value != "" {
			*to = append(*to, name+" "+EscapeSentence(value))
		}
	}
	t := kind[0].ProbedAttributes
	add(&numbers, "PROCSPEED", formatSpeed(kind))
	if t.CPUModel != "" || t.Speed > 0 || t.Networks != nil { // somebody has looked
		add(&numbers, "MEMORY", formatRange(kind, "MB", func(n job.Node) int { return int(n.Memory.Installed() >> 20) }))
	}
	add(&numbers, "NETSPEED", formatRange(kind, "Mb/s", func(n job.Node) int { return n.ProbedAttributes.NetSpeed }))
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

// formatSpeed is that of the slowest CPU, and how it was found.
func formatSpeed(kind []job.Node) string {
	text := formatRange(kind, "MHz", func(n job.Node) int { return n.ProbedAttributes.Speed })
	if text != "" {
		text += " (" + string(kind[0].ProbedAttributes.SpeedQuality) + ")"
	}
	return text
}

// formatRange is the number of all of these nodes, from the least to the most; empty: unknown.
func formatRange(kind []job.Node, unit string, of func(job.Node) int) string {
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
