package show

import (
	"fmt"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// Map tells the ranks of each node, node by node in the order they were filled
// (DIAG-2):
//
//	node01  16 cores  ranks 0-7   solver
//	node02  16 cores  ranks 8-15  solver
//
// A node that has ranks of several sections has a line for each.
func Map(v View) string {
	var lines table
	for _, n := range v.Plan.Nodes {
		name, units := n.Name, units(v.node(n), v.Request.Reserve)
		for app, ranks := range byApp(v, n) {
			if ranks != nil {
				lines.add(name, units, labelled("rank", ranks), v.program(app))
				name, units = "", ""
			}
		}
	}
	return lines.String()
}

// byApp lists the ranks of a node for each section.
func byApp(v View, n job.NodePlan) [][]int {
	ranks := make([][]int, len(v.Request.Apps))
	for _, r := range n.Ranks {
		ranks[r.App] = append(ranks[r.App], r.Rank)
	}
	return ranks
}

// units tells how many ranks of one slot a node holds, of what, and what keeps ranks from the rest: "2 of 4 cores, by
// reserve=2". reserve is what the job leaves free on each node.
func units(n job.Node, reserve int) string {
	switch {
	case n.Slots > 0:
		return text.Count(n.Slots, "slot")
	case len(n.Topology.Cores) == 0:
		return ""
	}
	b := n.Bounds(reserve)
	unit := strings.TrimPrefix(b.Unit, "hardware ")
	if b.By != nil {
		return fmt.Sprintf("%d of %s, by %s", b.Left, text.Count(b.All, unit), strings.Join(b.By, " and "))
	}
	return text.Count(b.Left, unit)
}

// Ranks tells of each rank, in their order, where it runs and what it is bound to:
//
//	rank 0  node01  package 0  NUMA 0  core 0  CPUs 0,16  solver
func Ranks(v View) string {
	var lines table
	for _, r := range rankRows(v) {
		lines.add(append([]string{fmt.Sprint("rank ", r.Rank), v.Plan.Nodes[r.node].Name},
			append(r.binding, v.program(r.App))...)...)
	}
	return lines.String()
}

// A rankRow is a rank and where it is.
type rankRow struct {
	job.RankPlan
	node    int      // index into Plan.Nodes
	binding []string // cells of a table
}

// rankRows lists all ranks in their order.
func rankRows(v View) []rankRow {
	rows := make([]rankRow, v.Plan.Size)
	for i, n := range v.Plan.Nodes {
		places := newPlaces(v.node(n))
		for _, r := range n.Ranks {
			rows[r.Rank] = rankRow{r, i, places.of(r)}
		}
	}
	return rows
}

// A places finds the core of each CPU of a node.
type places struct {
	node job.Node
	core map[int]int // its number, by CPU
}

func newPlaces(n job.Node) places {
	p := places{n, make(map[int]int)}
	for number, c := range n.Topology.Cores {
		for _, cpu := range c.CPUs {
			p.core[cpu] = number
		}
	}
	return p
}

// of tells package, memory node, cores, CPUs and GPUs of a rank, and where its memory is
// from.
func (p places) of(r job.RankPlan) []string {
	gpus := labelled("GPU", indices(r.GPUs))
	switch {
	case len(p.core) == 0:
		return []string{"", "", "", "CPUs unknown", "", gpus}
	case r.CPUs == nil:
		return []string{"", "", "", "not bound", strayMemory(r.Mems, nil), gpus}
	}
	var packages, memory, cores []int
	for _, cpu := range r.CPUs {
		number := p.core[cpu]
		core := p.node.Topology.Cores[number]
		packages, memory, cores = append(packages, core.Package), append(memory, core.NUMA), append(cores, number)
	}
	return []string{labelled("package", set(packages)), labelled("NUMA", set(memory)), labelled("core", set(cores)), labelled("CPU", r.CPUs), strayMemory(r.Mems, set(memory)), gpus}
}

// indices are the numbers of GPUs.
func indices(gpus []gpu.GPU) (numbers []int) {
	for _, g := range gpus {
		numbers = append(numbers, g.Index)
	}
	return numbers
}

// strayMemory tells where the memory of a rank comes from, if not from where its cores
// are.
func strayMemory(mems, near []int) string {
	switch {
	case slices.Equal(mems, near):
		return ""
	case mems == nil:
		return "memory from anywhere"
	}
	return "memory of NUMA " + spans(mems)
}

// Hosts tells the candidates, with their slots and where each was named, those that
// have that in common together:
//
//	node[01-02]  16 slots each  hosts.txt:1
//	localhost    8 cores        -host
func Hosts(v View) string {
	var lines table
	for _, g := range v.groups() {
		lines.add(g.names, g.size, g.origin, g.way)
	}
	return lines.String()
}

// A group is candidates of which the same is to be said.
type group struct{ names, size, origin, way string }

// groups are those of the request, in the order of their first.
func (v View) groups() []group {
	seen, listed := make(map[int]job.Node), make(map[int]bool)
	for _, n := range v.Snapshot.Nodes {
		seen[n.ID] = n
	}
	for _, turn := range v.Request.Turns {
		listed[turn] = true
	}
	var all []group
	members := make(map[group][]string)
	for i, def := range v.Request.Nodes {
		if v.Request.Turns != nil && !listed[i] {
			continue // not on the list
		}
		n := job.Node{Probe: seen[def.ID].Probe, NodeDef: def}
		g := group{size: capacity(n, v.Request.Reserve), origin: def.Origin}
		if v.Route != nil {
			g.way = v.Route(def)
		}
		if members[g] == nil {
			all = append(all, g)
		}
		members[g] = append(members[g], def.Name)
	}
	for i, g := range all {
		names := members[g]
		all[i].names = hostlist.Fold(names)
		if len(names) > 1 && !strings.HasPrefix(g.size, unknown) {
			first, rest, _ := strings.Cut(g.size, ",")
			all[i].size = strings.TrimSuffix(first+" each,"+rest, ",")
		}
	}
	return all
}

// unknown is the size of a host that nobody has looked at.
const unknown = "size unknown"

// capacity is what a host offers, with the bound that was written down for it.
func capacity(n job.Node, reserve int) string {
	size := units(n, reserve)
	if size == "" {
		size = unknown
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
