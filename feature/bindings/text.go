package bindings

import (
	"fmt"

	"remshell/idset"
	"remshell/pin"
)

// formatBinding describes the CPUs to which a rank is bound, for example "rank 3 node01 package 0 core 3
// [...B|....]". It also names the memory if the node has several NUMA nodes.
func formatBinding(rank, node string, t pin.Topology, cpus, mems []int) string {
	line := fmt.Sprintf("rank %s %s", rank, node)
	if cpus == nil {
		line += " not bound"
	} else {
		line += " " + t.DescribeCPUs(cpus)
	}
	if len(mems) > 0 && t.CountNUMANodes() > 1 {
		line += " memory " + idset.Text(mems)
	}
	return line + "\n"
}
