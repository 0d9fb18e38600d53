package plan

import (
	"fmt"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// confined tells what a CPU mask or cpuset that the helper has inherited leaves of a
// node, if it takes whole units away (PLACE-5); empty: all, or the slots were written
// down. Who calls mpiexec under taskset, or in a batch job, shall read why the node is
// so small.
func confined(n job.Node) string {
	if n.Slots > 0 {
		return ""
	}
	unit, left, all := "cores", n.Topology.Count(n.CountThreads), len(n.Topology.Cores)
	if n.CountThreads {
		unit, all = "hardware threads", 0
		for i := range n.Topology.Cores {
			all += len(n.Topology.Cores[i].CPUs) + len(n.Topology.Cores[i].Shut)
		}
	}
	if left == all {
		return ""
	}
	return fmt.Sprintf("the CPU mask or cpuset leaves %d of %d %s", left, all, unit)
}

// confinedOf tells it of several nodes, equal words once, as the rest of a sentence.
func confinedOf(candidates []candidate, which []int) string {
	var why strings.Builder
	for _, g := range text.Groups(which, func(i int) (string, string) {
		return confined(candidates[i].Node), candidates[i].Name
	}) {
		if g.Common != "" {
			fmt.Fprintf(&why, "; on %s %s", hostlist.Fold(g.Names), g.Common)
		}
	}
	return why.String()
}
