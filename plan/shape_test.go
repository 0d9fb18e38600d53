package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// Several apps, placed one after the other.
func TestAppsInShapes(t *testing.T) {
	newApp := func(n, threads, shape int) job.App {
		return job.App{N: n, RankNeeds: job.RankNeeds{CPUsPerRank: threads, ExactPerNode: shape}}
	}
	tests := []struct {
		name, cluster string
		apps          []job.App
		want          string
	}{
		{"M1", "n0:4 n1:4", []job.App{newApp(3, 1, 0), newApp(3, 1, 0)}, "n0 n0 n0 n0 n1 n1"},
		{"M2", "n0:4 n1:4", []job.App{newApp(3, 1, 0), newApp(2, 2, 0)}, "n0 n0 n0 n1 n1"},
		{"M3", "n0:4 n1:4", []job.App{newApp(4, 1, 2), newApp(2, 1, 2)}, "n0 n0 n1 n1 n1 n1"},
		{"a shape behind none", "n0:4 n1:4 n2:4", []job.App{newApp(5, 1, 0), newApp(4, 1, 2)}, "n0 n0 n0 n0 n1 n1 n1 n2 n2"},
		{"round to the first", "n0:4 n1:4", []job.App{newApp(5, 1, 0), newApp(4, 1, 3)}, "n0 n0 n0 n0 n1 error"},
		{"no number of ranks", "n0:4 n1:1 n2:4", []job.App{newApp(0, 1, 2)}, "n0 n0 n2 n2"},
		{"one that no node holds", "n0:1 n1:1", []job.App{newApp(0, 1, 2)}, "error"},
	}
	for _, test := range tests {
		p, err := Make(requestFor(job.Request{Apps: test.apps}, cluster(test.cluster)))
		got := nodesByRank(p)
		if err != nil {
			got = test.want // which shows where it ends
			if test.want[len(test.want)-5:] != "error" {
				got = err.Error()
			}
		}
		if got != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
	}
}

// The error if a shape leaves ranks over.
func TestRefuseShape(t *testing.T) {
	req := job.Request{Apps: []job.App{{N: 12, RankNeeds: job.RankNeeds{ExactPerNode: 4}}}}
	_, err := Make(requestFor(req, cluster("n0:8 n1:3 n2:8")))
	const want = "12 ranks cannot be placed with exactly 4 on each host: 3 nodes (n[0-2]) have room for 8, and 4 are left over"
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != CodeNotEnough || failed.Text != want || failed.FreeRanks != 8 {
		t.Errorf("%v; want %s", err, want)
	}
}

// withTwoNUMANodes divides the cores of each node into two NUMA nodes.
func withTwoNUMANodes(snap job.Snapshot) job.Snapshot {
	for i := range snap.Nodes {
		cores := snap.Nodes[i].Topology.Cores
		for k := range cores {
			cores[k].CoreLocation = pin.CoreLocation{NUMA: 2 * k / len(cores)}
		}
	}
	return snap
}

// masksOf formats the CPUs of each rank: "[0] [1 2]".
func masksOf(p job.Plan) string {
	cpus := make([]string, p.Size)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			cpus[r.Rank] = fmt.Sprint(r.CPUs)
		}
	}
	return fmt.Sprint(cpus)
}

// Each app has its own NUMA confinement, and all apps share the free CPUs.
func TestAppsInNUMANodes(t *testing.T) {
	apps := []job.App{
		{N: 2, RankNeeds: job.RankNeeds{NUMA: pin.Confinement{PerNUMA: 1}}},
		{N: 1, RankNeeds: job.RankNeeds{CPUsPerRank: 4}},
		{N: 2, RankNeeds: job.RankNeeds{NUMA: pin.Confinement{NUMANodes: []int{1}}}},
	}
	snap := withTwoNUMANodes(cluster("n0:8"))
	p, err := Make(requestFor(job.Request{Apps: apps}, snap))
	if got := masksOf(p); err != nil || got != "[[0] [4] [1 2 3 5] [6] [7]]" {
		t.Errorf("%s, %v", got, err)
	}
	apps[2].N = 3
	if _, err := Make(requestFor(job.Request{Apps: apps}, snap)); err == nil {
		t.Error("a third rank has a place in NUMA node 1")
	}
}

// --strict-mem binds the memory of a rank to its NUMA node, whatever other memory options say.
func TestStrictMemory(t *testing.T) {
	for _, strict := range []bool{false, true} {
		apps := []job.App{{N: 2, RankNeeds: job.RankNeeds{CPUsPerRank: 3, NUMA: pin.Confinement{StrictMemory: strict}}}}
		p, err := Make(requestFor(job.Request{Apps: apps, Placement: job.Placement{NoMemBind: true}}, withTwoNUMANodes(cluster("n0:8"))))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range p.Nodes[0].Ranks {
			got = append(got, fmt.Sprint(r.CPUs, r.Mems))
		}
		want := map[bool]string{false: "[[0 1 2] [] [3 4 5] []]", true: "[[0 1 2] [0] [4 5 6] [1]]"}[strict]
		if fmt.Sprint(got) != want {
			t.Errorf("strict %v: %v; want %s", strict, got, want)
		}
	}
	snap := withTwoNUMANodes(cluster("n0:8"))
	snap.Nodes[0].NoMemBind = true
	apps := []job.App{{N: 1, RankNeeds: job.RankNeeds{NUMA: pin.Confinement{StrictMemory: true}}}}
	if p, err := Make(requestFor(job.Request{Apps: apps}, snap)); err == nil || len(p.Rejected) != 1 || p.Rejected[0].Code != "numa-fit" {
		t.Errorf("%v, %v: its administrator binds no memory", p.Rejected, err)
	}
}

// Memory limits the ranks of the whole job, and sharing CPUs does not lift the limit.
func TestMemoryBoundsTheRanks(t *testing.T) {
	snap := cluster("n0:4 n1:4")
	snap.Nodes[0].Memory = job.Memory{Total: 8 << 30, Available: 5 << 30}
	req := job.Request{Apps: []job.App{{N: 1}, {N: 4}}, Placement: job.Placement{Overbook: true}}
	req.Memory = 2 << 30
	if p, err := Make(requestFor(req, snap)); err != nil || nodesByRank(p) != "n0 n0 n1 n1 n1" {
		t.Errorf("%s, %v", nodesByRank(p), err)
	}
	snap.Nodes = snap.Nodes[:1]
	_, err := Make(requestFor(req, snap))
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != CodeLimits || !failed.Permanent {
		t.Errorf("%v: 8 GB hold four ranks at most", err)
	}
}

// With required huge pages the number of free pages limits the ranks, in whole pages for each rank. An
// unknown number is no limit.
func TestHugePagesBoundTheRanks(t *testing.T) {
	pages := func(size, total, free int64) job.HugePages {
		return job.HugePages{Probed: true, Size: size, Total: total, Free: free}
	}
	for _, test := range []struct {
		name string
		huge job.HugePages
		wish job.HugePageRequest
		want string
	}{
		{"not asked for", pages(2<<20, 0, 0), "", "n0 n0 n0 n0"},
		{"a wish", pages(2<<20, 0, 0), job.HugePagesPreferred, "n0 n0 n0 n0"},
		{"not known", job.HugePages{}, job.HugePagesRequired, "n0 n0 n0 n0"},
		{"enough", pages(2<<20, 8, 8), job.HugePagesRequired, "n0 n0 n0 n0"},
		{"two pages for each", pages(2<<20, 8, 7), job.HugePagesRequired, "n0 n0 n0 n1"},
		{"a page for each", pages(1<<30, 3, 2), job.HugePagesRequired, "n0 n0 n1 n1"},
		{"one page, and two are needed", pages(2<<20, 8, 1), job.HugePagesRequired, "n1 n1 n1 n1; n0 memory the host has 1 free huge page of 2048 kB, but each rank needs 2"},
		{"none", pages(2<<20, 0, 0), job.HugePagesRequired, "n1 n1 n1 n1; n0 memory the host has 0 free huge pages of 2048 kB"},
		{"no such kernel", pages(0, 0, 0), job.HugePagesRequired, "n1 n1 n1 n1; n0 memory the kernel of the host has no huge pages"},
	} {
		snap := cluster("n0:4 n1:4")
		snap.Nodes[0].Memory.HugePages = test.huge
		req := job.Request{Apps: []job.App{{N: 4}}, Placement: job.Placement{NodeSelection: job.NodeSelection{Memory: 3 << 20, HugePages: test.wish}}}
		p, err := Make(requestFor(req, snap))
		got := nodesByRank(p)
		for _, note := range p.Rejected {
			got += fmt.Sprintf("; %s %s %s", note.Node, note.Code, note.Text)
		}
		if err != nil || !strings.HasPrefix(got, test.want) || !strings.Contains(test.want, ";") && got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// Whether waiting may help depends on the total number of huge pages, not on the free ones.
func TestHugePagesOfAnIdleNode(t *testing.T) {
	for total, permanent := range map[int64]bool{8: false, 4: false, 3: true} {
		snap := cluster("n0:4")
		snap.Nodes[0].Memory = job.Memory{Total: 1 << 30, Available: 1 << 30, HugePages: job.HugePages{Probed: true, Size: 2 << 20, Total: total, Free: 3}}
		req := job.Request{Apps: []job.App{{N: 4}}, Placement: job.Placement{NodeSelection: job.NodeSelection{Memory: 2 << 20, HugePages: job.HugePagesRequired}}}
		_, err := Make(requestFor(req, snap))
		var failed *Error
		if !errors.As(err, &failed) || failed.Permanent != permanent || !strings.Contains(failed.Text, "the number of huge pages for --mem-per-rank allows 3 on n0") && !permanent {
			t.Errorf("%d pages in all: %v", total, err)
		}
	}
}

// ProbeFilter selects the nodes that may be used, and those whose size a gate depends on.
func TestProbeFilter(t *testing.T) {
	auto := job.AutoWidth
	req := job.Request{Apps: []job.App{{N: 1}}, User: job.User{UID: 1}, HostEntries: []int{0, 2, 3}, Nodes: []job.NodeDef{
		{Name: "n0", NodePolicy: job.NodePolicy{Users: []int{2}}}, {Name: "n1"}, {Name: "h0", NodePolicy: job.NodePolicy{Flavors: []string{"os", "ap"}}},
		{Name: "x0", NodePolicy: job.NodePolicy{Flavors: []string{"su", "ap"}}}, {Name: "n2", NodePolicy: job.NodePolicy{NoJobs: true}}}}
	req.Regions = []job.Region{{Name: "main", Signature: "ap"}, {Name: "over", Signature: "os ap", Gate: job.Gate{Width: &auto}}}
	worthy := ProbeFilter(req)
	for i, want := range []bool{true, true, true, false, false} {
		if got := worthy(req.Nodes[i]); got != want {
			t.Errorf("%s: %v", req.Nodes[i].Name, got)
		}
	}
}

// GPUs limit the capacity in a shape, and are chosen near the NUMA nodes in which ranks stay.
func TestGPUsInShapes(t *testing.T) {
	app := job.App{N: 3, RankNeeds: job.RankNeeds{ExactPerNode: 2, GPUs: 2}}
	nodes := nodesWithGPUs("a:8/2+0011 b:8/2+01 c:8/2")
	if p, err := Make(requestFor(job.Request{Apps: []job.App{app}}, nodes)); err != nil || nodesByRank(p) != "a a b" {
		t.Errorf("%s, %v", nodesByRank(p), err)
	}
	app.N = 4
	if _, err := Make(requestFor(job.Request{Apps: []job.App{app}}, nodes)); err == nil {
		t.Error("there are GPUs for three ranks")
	}
	app = job.App{N: 2, RankNeeds: job.RankNeeds{NUMA: pin.Confinement{PerNUMA: 1}, GPUs: 1}}
	p, err := Make(requestFor(job.Request{Apps: []job.App{app}}, nodes))
	if err != nil || masksOf(p) != "[[0] [4]]" {
		t.Fatalf("%s, %v", masksOf(p), err)
	}
	for _, r := range p.Nodes[0].Ranks {
		if want := r.CPUs[0] / 4; len(r.GPUs) != 1 || r.GPUs[0].NUMA != want {
			t.Errorf("rank %d on CPUs %v has %v", r.Rank, r.CPUs, r.GPUs)
		}
	}
}

// Each part of a span has the shape (which-hosts.md 9.1), and the remainder goes to a node after its last
// full one.
func TestShapesInASpan(t *testing.T) {
	spec := "ONEOF:FEATURE"
	kinds, _ := nodeset.KindsOf(0, nil)
	set, err := nodeset.Levels{Flags: nodeset.Level{Spec: &spec, Source: "--node-set", Modifiers: map[string]string{nodeset.KeyPlus: "SPANEVENLY"}}}.Resolve(kinds)
	if err != nil {
		t.Fatal(err)
	}
	snap := cluster("a0:4 a1:4 b0:4 b1:4")
	for i, feature := range []string{"x", "x", "y", "y"} {
		snap.Nodes[i].Features = []string{feature}
	}
	for n, want := range map[int]string{8: "a0 a0 a1 a1 b0 b0 b1 b1", 6: "a0 a0 a1 b0 b0 b1", 4: "a0 a0 a1 a1", 9: "error"} {
		req := job.Request{Apps: []job.App{{N: n, RankNeeds: job.RankNeeds{ExactPerNode: 2}}}}
		req.NodeSet = set
		p, err := Make(requestFor(req, snap))
		got := nodesByRank(p)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%d ranks: %s, %v; want %s", n, got, err, want)
		}
	}
}

// A job makes one choice: a set runs all its apps, in order, or none.
func TestAppsInSets(t *testing.T) {
	spec := "ONEOF:FEATURE:x,y"
	kinds, _ := nodeset.KindsOf(0, nil)
	set, err := nodeset.Levels{Flags: nodeset.Level{Spec: &spec, Source: "--node-set"}}.Resolve(kinds)
	if err != nil {
		t.Fatal(err)
	}
	snap := cluster("n0:4 n1:4 n2:8")
	for i, feature := range []string{"x", "x", "y"} {
		snap.Nodes[i].Features = []string{feature}
	}
	newApp := func(n, threads int) job.App { return job.App{N: n, RankNeeds: job.RankNeeds{CPUsPerRank: threads}} }
	for _, test := range []struct {
		name string
		apps []job.App
		want string
	}{
		{"M4", []job.App{newApp(5, 1), newApp(3, 1)}, "n0 n0 n0 n0 n1 n1 n1 n1"},
		{"M5", []job.App{newApp(5, 1), newApp(4, 1)}, "error no-node-set true"},
		{"M6", []job.App{newApp(2, 4), newApp(2, 1)}, "error no-node-set true"},
	} {
		req := job.Request{Apps: test.apps}
		req.NodeSet = set
		p, err := Make(requestFor(req, snap))
		got := nodesByRank(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = fmt.Sprint("error ", failed.Code, " ", failed.Permanent)
		}
		if got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// With a rank file, --shape and --contiguous have no effect.
func TestRankFileOverridesNodeChoice(t *testing.T) {
	req := contiguousRequest(job.ContiguousFirst, job.App{N: 2, RankNeeds: job.RankNeeds{ExactPerNode: 2}})
	req.FixedPlacements = []job.FixedPlacement{{Node: 2}, {Node: 0}}
	if p, err := Make(requestFor(req, cluster("a:2 b:2 c:2"))); err != nil || nodesByRank(p) != "c a" {
		t.Errorf("%s, %v", nodesByRank(p), err)
	}
}
