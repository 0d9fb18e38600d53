package format

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
)

// The choice lists the node sets considered and the nodes used.
func TestChoice(t *testing.T) {
	v := JobView{Plan: job.Plan{Size: 16, FillOrder: []string{"n7", "n8"}, Rejected: []job.Note{{Node: "n9", Code: "cpus-full"}}}}
	for i := range 10 {
		v.Request.Nodes = append(v.Request.Nodes, job.NodeDef{Name: fmt.Sprint("n", i)})
	}
	if got := NodeChoice(v); got != "" {
		t.Errorf("without a choice: %q", got)
	}
	v.Plan.Choice = &job.NodeChoice{Class: "amd", Regions: []string{"main"}, ClosedRegions: []job.Note{{Node: "overflow", Text: "is for jobs of more than 32 CPUs, but this job needs 16 CPUs"}}, NodeSet: &job.SetChoice{Request: "ONEOF:FEATURE", From: "--node-set", Priority: "BESTFIT",
		Sets:   []job.ConsideredSet{{Name: "switchA", Nodes: 4, Capacity: 28, Fits: true}, {Name: "switchB", Nodes: 3, Capacity: 9}, {Name: "switchC", Nodes: 2, Capacity: 16, Fits: true}},
		Chosen: []string{"switchC"}}}
	want := `class amd; regions main, not overflow (it is for jobs of more than 32 CPUs)
node set ONEOF:FEATURE (from --node-set), chosen by BESTFIT for 16 ranks
  switchA  4 nodes  28 ranks fit
  switchB  3 nodes  9 ranks fit   too small
  switchC  2 nodes  16 ranks fit  <- chosen
nodes n[7-8]; not chosen: n[0-6]
`
	if got := NodeChoice(v); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s := v.Plan.Choice.NodeSet
	s.Sets, s.Chosen = nil, []string{"s40"}
	for i := range 100 {
		s.Sets = append(s.Sets, job.ConsideredSet{Name: fmt.Sprint("s", i), Nodes: 1, Capacity: 1, Fits: true})
	}
	got := NodeChoice(v)
	if strings.Count(got, "1 rank fits") != maxListedSets || !strings.Contains(got, "s40") || !strings.Contains(got, "and 88 other sets") {
		t.Errorf("of a hundred sets:\n%s", got)
	}
}
