package format

import (
	"fmt"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// Map returns the ranks of each node, node by node in the order in which nodes are filled (rule DIAG-2):
//
//	node01  16 cores  ranks 0-7   solver
//	node02  16 cores  ranks 8-15  solver
//
// If a node has ranks of several app contexts, Map returns a line for each of these.
func Map(v JobView) string {
	var lines textTable
	for _, n := range v.Plan.Nodes {
		name, units := n.Name, formatUnits(v.nodeOf(n), v.Request.Reserve)
		for app, ranks := range ranksByApp(v, n) {
			if ranks != nil {
				lines.addRow(name, units, labelNumbers("rank", ranks), v.programName(app))
				name, units = "", ""
			}
		}
	}
	return lines.String()
}

// ranksByApp returns the ranks of a node, one list for each app context.
func ranksByApp(v JobView, n job.NodePlan) [][]int {
	ranks := make([][]int, len(v.Request.Apps))
	for _, r := range n.Ranks {
		ranks[r.App] = append(ranks[r.App], r.Rank)
	}
	return ranks
}

// formatUnits returns how many ranks fit on a node if each rank uses one CPU, and what reduces that number, such as
// "2 of 4 cores, by reserve=2". reserve is the number of CPUs that the job leaves free on each node.
func formatUnits(n job.Node, reserve int) string {
	switch {
	case n.Slots > 0:
		return text.Count(n.Slots, "slot")
	case len(n.Topology.Cores) == 0:
		return ""
	}
	b := n.UsableCPUs(reserve)
	unit := strings.TrimPrefix(b.Unit, "hardware ")
	if b.ReducedBy != nil {
		return fmt.Sprintf("%d of %s, by %s", b.Usable, text.Count(b.Total, unit), strings.Join(b.ReducedBy, " and "))
	}
	return text.Count(b.Usable, unit)
}

// Ranks returns a line for each rank, in order, with the rank's node and binding:
//
//	rank 0  node01  package 0  NUMA 0  core 0  CPUs 0,16  solver
func Ranks(v JobView) string {
	var lines textTable
	for _, r := range rankRows(v) {
		lines.addRow(append([]string{fmt.Sprint("rank ", r.Rank), v.Plan.Nodes[r.node].Name},
			append(r.binding, v.programName(r.App))...)...)
	}
	return lines.String()
}

// A rankRow is a rank together with its node and binding.
type rankRow struct {
	job.RankPlan
	node    int      // index into Plan.Nodes
	binding []string // cells of a table
}

// rankRows returns the rows of all ranks, in order of rank.
func rankRows(v JobView) []rankRow {
	rows := make([]rankRow, v.Plan.Size)
	for i, n := range v.Plan.Nodes {
		places := newCoreFinder(v.nodeOf(n))
		for _, r := range n.Ranks {
			rows[r.Rank] = rankRow{r, i, places.bindingCells(r)}
		}
	}
	return rows
}

// A coreFinder finds the core of each CPU of a node.
type coreFinder struct {
	node job.Node
	core map[int]int // core number by CPU
}

func newCoreFinder(n job.Node) coreFinder {
	p := coreFinder{n, make(map[int]int)}
	for number, c := range n.Topology.Cores {
		for _, cpu := range c.CPUs {
			p.core[cpu] = number
		}
	}
	return p
}

// bindingCells returns the table cells for a rank's binding: package, NUMA node, cores, CPUs, memory if it is
// remote, and GPUs.
func (p coreFinder) bindingCells(r job.RankPlan) []string {
	gpus := labelNumbers("GPU", gpuIndices(r.GPUs))
	switch {
	case len(p.core) == 0:
		return []string{"", "", "", "CPUs unknown", "", gpus}
	case r.CPUs == nil:
		return []string{"", "", "", "not bound", formatRemoteMemory(r.Mems, nil), gpus}
	}
	var packages, memory, cores []int
	for _, cpu := range r.CPUs {
		number := p.core[cpu]
		core := p.node.Topology.Cores[number]
		packages, memory, cores = append(packages, core.Package), append(memory, core.NUMA), append(cores, number)
	}
	return []string{labelNumbers("package", sortedKnown(packages)), labelNumbers("NUMA", sortedKnown(memory)), labelNumbers("core", sortedKnown(cores)), labelNumbers("CPU", r.CPUs), formatRemoteMemory(r.Mems, sortedKnown(memory)), gpus}
}

func gpuIndices(gpus []gpu.GPU) (numbers []int) {
	for _, g := range gpus {
		numbers = append(numbers, g.Index)
	}
	return numbers
}

// formatRemoteMemory formats mems, the NUMA nodes from which a rank gets its memory. It returns "" if these are
// equal to near, the NUMA nodes of the rank's cores.
func formatRemoteMemory(mems, near []int) string {
	switch {
	case slices.Equal(mems, near):
		return ""
	case mems == nil:
		return "memory from any NUMA node"
	}
	return "memory of NUMA " + foldNumbers(mems)
}

// Hosts lists the candidate hosts, with their slots and where the user named them. Candidates that look the same
// share a line:
//
//	node[01-02]  16 slots each  hosts.txt:1
//	localhost    8 cores        -host
func Hosts(v JobView) string {
	var lines textTable
	for _, g := range v.hostGroups() {
		lines.addRow(g.names, g.size, g.origin, g.route)
	}
	return lines.String()
}

// A hostGroup holds the cells of one line about candidate hosts that look the same.
type hostGroup struct{ names, size, origin, route string }

// hostGroups returns the candidate hosts of the request, with hosts that look the same in one group. Groups are
// in the order of their first host.
func (v JobView) hostGroups() []hostGroup {
	seen, listed := make(map[int]job.Node), make(map[int]bool)
	for _, n := range v.Snapshot.Nodes {
		seen[n.ID] = n
	}
	for _, node := range v.Request.HostEntries {
		listed[node] = true
	}
	var all []hostGroup
	members := make(map[hostGroup][]string)
	for i, def := range v.Request.Nodes {
		if v.Request.HostEntries != nil && !listed[i] {
			continue // not on the list
		}
		n := job.Node{Probe: seen[def.ID].Probe, NodeDef: def}
		g := hostGroup{size: formatCapacity(n, v.Request.Reserve), origin: def.Origin}
		if v.RouteOf != nil {
			g.route = v.RouteOf(def)
		}
		if members[g] == nil {
			all = append(all, g)
		}
		members[g] = append(members[g], def.Name)
	}
	for i, g := range all {
		names := members[g]
		all[i].names = hostlist.Fold(names)
		if len(names) > 1 && !strings.HasPrefix(g.size, unknownSize) {
			first, rest, _ := strings.Cut(g.size, ",")
			all[i].size = strings.TrimSuffix(first+" each,"+rest, ",")
		}
	}
	return all
}

// unknownSize is the size shown for a host that was not probed and for which the user specified no slots.
const unknownSize = "size unknown"

// formatCapacity returns a text that says how many ranks fit on a host. The text also lists the limits and features that
// the cluster file specifies for the host.
func formatCapacity(n job.Node, reserve int) string {
	size := formatUnits(n, reserve)
	if size == "" {
		size = unknownSize
	}
	if n.MaxSlots > 0 {
		size += fmt.Sprintf(", at most %s", text.Count(n.MaxSlots, "rank"))
	}
	if n.MaxProcs != nil {
		size += fmt.Sprintf(", at most %d processes", *n.MaxProcs)
	}
	if len(n.Features) > 0 {
		size += ", " + strings.Join(n.Features, " ")
	}
	return size
}
