package bindings

import (
	"strings"
	"testing"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/pin"
	"remshell/wire"
)

// twoMemories returns a node of four cores in two NUMA nodes of one package.
func twoMemories() *launch.Node {
	n := &launch.Node{Node: reserve.Node{Node: &node.Node{Def: job.NodeDef{Name: "n1"}}, Probe: new(job.Probe)}}
	for cpu := range 4 {
		n.Probe.Topology.Cores = append(n.Probe.Topology.Cores, pin.Core{CPUs: []int{cpu}, CoreLocation: pin.CoreLocation{NUMA: cpu / 2}})
	}
	return n
}

// DIAG-3: there is a line for each rank in order of ranks, whatever the order of the reports.
func TestBindingsAreReportedInRankOrder(t *testing.T) {
	var out strings.Builder
	n := twoMemories()
	b := newReport(func(text string) { out.WriteString(text) }, 0, 4)
	b.addRank(n, 3, &wire.Started{Rank: 3, CPUs: []int{2, 3}, Mems: []int{1}})
	b.addRank(n, 1, &wire.Started{Rank: 1, Code: 127, Err: "no such program"})
	b.addRank(n, 0, &wire.Started{Rank: 0, CPUs: []int{1}})
	if out.Len() > 0 {
		t.Errorf("told before all is known: %s", out.String())
	}
	b.addRank(n, 2, &wire.Started{Rank: 2, Mems: []int{0}})
	b.printNow()
	want := "rank 0 n1 package 0 core 1 [.B/..]\nrank 2 n1 not bound memory 0\nrank 3 n1 package 0 core 2-3 [../BB] memory 1\n"
	if out.String() != want {
		t.Errorf("told\n%swant\n%s", out.String(), want)
	}
}

// If a job ends before all ranks run, the other ranks are reported at its end.
func TestBindingsOfAnEarlyEnd(t *testing.T) {
	var out strings.Builder
	b := newReport(func(text string) { out.WriteString(text) }, 0, 2)
	b.addRank(twoMemories(), 1, &wire.Started{Rank: 1, CPUs: []int{0}})
	b.printNow()
	b.printNow()
	if want := "rank 1 n1 package 0 core 0 [B./..]\n"; out.String() != want {
		t.Errorf("told %q, want %q", out.String(), want)
	}
	var nobody *report
	nobody.addRank(nil, 0, &wire.Started{})
	nobody.printNow()
}
