package plan

import (
	"fmt"
	"strings"

	"remshell/hostlist"
	"remshell/job"
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
	nodes := make(map[string][]string)
	var order []string
	for _, i := range which {
		why := confined(candidates[i].Node)
		if why == "" {
			continue
		}
		if nodes[why] == nil {
			order = append(order, why)
		}
		nodes[why] = append(nodes[why], candidates[i].Name)
	}
	var text strings.Builder
	for _, why := range order {
		fmt.Fprintf(&text, "; on %s %s", hostlist.Fold(nodes[why]), why)
	}
	return text.String()
}
