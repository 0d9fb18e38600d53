package words

import (
	"fmt"

	"remshell/idset"
	"remshell/pin"
)

// FormatBinding says to what a rank is bound: "rank 3 node01 package 0 core 3 [...B|....]".
// Memory is told where the node has a choice of it.
func FormatBinding(rank, node string, t pin.Topology, cpus, mems []int) string {
	told := fmt.Sprintf("rank %s %s", rank, node)
	if cpus == nil {
		told += " not bound"
	} else {
		told += " " + t.DescribeCPUs(cpus)
	}
	if len(mems) > 0 && t.CountNUMANodes() > 1 {
		told += " memory " + idset.Text(mems)
	}
	return told + "\n"
}
