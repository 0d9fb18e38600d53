package format

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
)

// attributesAlike reports whether two nodes may share one description. Their measured speeds may differ, since
// measuring is inexact. Their installed memory may differ, since the description shows its range.
func attributesAlike(a, b job.Node) bool {
	x, y := a.ProbedAttributes, b.ProbedAttributes
	return x.SpeedQuality == y.SpeedQuality && (x.Speed == y.Speed || x.SpeedQuality == job.SpeedMeasured) && x.NetSpeed == y.NetSpeed && x.CPUModel == y.CPUModel &&
		slices.Equal(x.Networks, y.Networks) && slices.Equal(x.GPUModels, y.GPUModels)
}

// formatAttributes returns the attributes by which node sets are formed, under the names that requests use
// (which-hosts.md 2). All nodes in kind are alike (attributesAlike). It returns "" if the nodes were not probed.
func formatAttributes(kind []job.Node) string {
	var numbers, words []string
	addPair := func(to *[]string, name, value string) {
		if value != "" {
			*to = append(*to, name+" "+EscapeSentence(value))
		}
	}
	t := kind[0].ProbedAttributes
	addPair(&numbers, "PROCSPEED", formatSpeed(kind))
	if t.CPUModel != "" || t.Speed > 0 || t.Networks != nil { // the nodes were probed
		addPair(&numbers, "MEMORY", formatRange(kind, "MB", func(n job.Node) int { return int(n.Memory.Installed() >> 20) }))
	}
	addPair(&numbers, "NETSPEED", formatRange(kind, "Mb/s", func(n job.Node) int { return n.ProbedAttributes.NetSpeed }))
	addPair(&numbers, "CPUMODEL", t.CPUModel)
	addPair(&words, "NETWORK", strings.Join(t.Networks, " "))
	addPair(&words, "GPUMODEL", strings.Join(t.GPUModels, " "))
	text := ""
	for _, line := range [][]string{numbers, words} {
		if line != nil {
			text += "  " + strings.Join(line, "  ") + "\n"
		}
	}
	return text
}

// formatSpeed returns the CPU speed of the nodes, or the range of their speeds, and how the speed was determined. The
// speed of a node is that of its slowest CPU.
func formatSpeed(kind []job.Node) string {
	text := formatRange(kind, "MHz", func(n job.Node) int { return n.ProbedAttributes.Speed })
	if text != "" {
		text += " (" + string(kind[0].ProbedAttributes.SpeedQuality) + ")"
	}
	return text
}

// formatRange returns the range of valueOf over the nodes, such as "2-4 MiB", or one value if all are equal. It
// returns "" if no value is positive.
func formatRange(kind []job.Node, unit string, valueOf func(job.Node) int) string {
	least, most := valueOf(kind[0]), valueOf(kind[0])
	for _, n := range kind {
		least, most = min(least, valueOf(n)), max(most, valueOf(n))
	}
	switch {
	case most == 0:
		return ""
	case least == most:
		return fmt.Sprintf("%d %s", most, unit)
	}
	return fmt.Sprintf("%d-%d %s", least, most, unit)
}
