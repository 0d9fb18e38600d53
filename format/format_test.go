package format

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"remshell/gpu"
	"remshell/job"
	"remshell/plan"
	"remshell/test/pintest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// compareGolden compares a text with a file in testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	if got == "" {
		t.Errorf("%s: nothing", name)
	}
	name = "testdata/" + name + ".txt"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
	for line := range strings.Lines(got) {
		if strings.TrimRight(line, " \n")+"\n" != line {
			t.Errorf("%s: line %q ends with blanks, or not at all", name, line)
		}
	}
}

// capturedNode returns a node as probed in a capture; allowed limits its CPUs.
func capturedNode(t *testing.T, id int, name, capture, allowed string) job.Node {
	arch := map[string]string{"kunpeng-128": "arm64", "power-256": "ppc64le"}[capture]
	return job.Node{
		NodeDef: job.NodeDef{ID: id, Name: name, Host: name, Origin: "hosts.txt:1"},
		Probe: job.Probe{Arch: cmp.Or(arch, "amd64"), Topology: pintest.CapturedTopology(t, "../testdata/nodes", capture, allowed),
			Load: [3]float64{0.25, 1, 1}, Memory: job.Memory{Total: 62<<30 + int64(id)<<20}},
	}
}

func TestTopology(t *testing.T) {
	kinds := []string{"vm-2", "xeon-32", "opteron-64", "kunpeng-128", "power-256", "hybrid-22"}
	var nodes []job.Node
	for i, capture := range kinds {
		nodes = append(nodes, capturedNode(t, i, capture[:2]+"01", capture, ""))
		for k := range i {
			nodes = append(nodes, capturedNode(t, i, fmt.Sprintf("%s%02d", capture[:2], k+2), capture, ""))
		}
	}
	nodes = append(nodes, capturedNode(t, 90, "cut", "xeon-32", "0-3,17,24-31"), job.Node{NodeDef: job.NodeDef{Name: "gone"}})
	compareGolden(t, "topology", Topology(nodes))
}

// The topology shows the attributes by which node sets are formed, and nodes that differ in them are separate.
func TestTopologyAttributes(t *testing.T) {
	fast := job.Attributes{Speed: 3000, SpeedQuality: job.SpeedNominal, Networks: []string{"eth1g", "ethernet", "ib", "ib-hdr"}, NetSpeed: 200000, CPUModel: "genuineintel-6-143", GPUModels: []string{"nvidia-h100"}}
	slow := fast
	slow.Speed, slow.GPUModels = 2000, nil
	var nodes []job.Node
	for i, traits := range []job.Attributes{fast, slow, fast, {Speed: 2600, SpeedQuality: job.SpeedMeasured}, {Speed: 2700, SpeedQuality: job.SpeedMeasured}, {}} {
		n := capturedNode(t, i, fmt.Sprint("n", i), "vm-2", "")
		n.ProbedAttributes = traits
		nodes = append(nodes, n)
	}
	compareGolden(t, "topology-traits", Topology(nodes))
}

// withGPUs gives a node the GPUs of another capture.
func withGPUs(t *testing.T, n job.Node, capture string) job.Node {
	found := gpu.Read(pintest.CapturedRoot(t, "../testdata/nodes", capture), func(name string) bool { return name != "dev/nvidia7" })
	n.GPUs, n.WithheldGPUs = found.GPUs, found.Withheld
	return n
}

// GPUs of nodes and of ranks are shown.
func TestGPUs(t *testing.T) {
	xeon := capturedNode(t, 0, "g1", "xeon-32", "")
	compareGolden(t, "topology-gpus", Topology([]job.Node{xeon, withGPUs(t, xeon, "gpu-dgx-8"), withGPUs(t, xeon, "gpu-amd-4"), withGPUs(t, xeon, "gpu-vm-2")}))
	equipped := func(v *JobView) {
		v.Request.Apps[0].N, v.Request.Apps[0].GPUs = 7, 1
		v.Request.Apps[1].GPUs = 2
		v.Snapshot.Nodes[0] = withGPUs(t, v.Snapshot.Nodes[0], "gpu-dgx-8")
		v.Snapshot.Nodes[1] = withGPUs(t, v.Snapshot.Nodes[1], "gpu-amd-4")
	}
	compareGolden(t, "dryrun-gpus", DryRun(testView(t, equipped)))
}

// testView plans a job on two Xeon nodes and a virtual machine.
func testView(t *testing.T, change func(*JobView)) JobView {
	v := JobView{
		Request: job.Request{
			Apps:    []job.App{{N: 34, Argv: []string{"/opt/bin/solver"}}, {N: 2, Argv: []string{"viz"}, Env: job.Env{Set: []string{"COLOUR=dark red"}}}},
			BaseEnv: job.Env{Set: []string{"PATH=/bin", "LANG=C", "FOO=1"}, Unset: []string{"TMP*"}},
		},
		RouteOf: func(n job.NodeDef) string { return "ssh as me" },
		Environ: []string{"PATH=/bin", "LANG=C", "FOO=0"},
	}
	v.Snapshot.Nodes = []job.Node{capturedNode(t, 0, "n1", "xeon-32", ""), capturedNode(t, 1, "n2", "xeon-32", ""), capturedNode(t, 2, "head", "vm-2", "")}
	v.Snapshot.Nodes[2].Slots, v.Snapshot.Nodes[2].MaxSlots = 4, 6
	for _, n := range v.Snapshot.Nodes {
		v.Request.Nodes = append(v.Request.Nodes, n.NodeDef)
	}
	if change != nil {
		change(&v)
	}
	v.Plan, v.Err = plan.Make(v.Request, v.Snapshot)
	v.Warnings = append(v.Warnings, v.Plan.Notes...)
	return v
}

func TestMap(t *testing.T) {
	compareGolden(t, "map", Map(testView(t, nil)))
	compareGolden(t, "map-cyclic", Map(testView(t, func(v *JobView) { v.Request.RoundRobin = true })))
	compareGolden(t, "ranks", Ranks(testView(t, func(v *JobView) { v.Request.Apps[0].N, v.Request.Apps[0].CPUsPerRank = 4, 6 })))
	compareGolden(t, "ranks-free", Ranks(testView(t, func(v *JobView) { v.Request.Apps[0].N, v.Request.NoPin = 2, true })))
	compareGolden(t, "hosts", Hosts(testView(t, nil)))
}

func TestDryRun(t *testing.T) {
	small := func(v *JobView) {
		v.Request.Apps[0].N, v.Request.Apps[0].CPUsPerRank, v.Request.Apps[0].CPUsPerRankOrigin = 5, 4, "OMP_NUM_THREADS"
	}
	compareGolden(t, "dryrun", DryRun(testView(t, small)))
	compareGolden(t, "dryrun-load", DryRun(testView(t, func(v *JobView) {
		small(v)
		v.Request.Sort = "LOAD"
		v.Snapshot.Nodes[0].Load[0], v.Snapshot.Nodes[2].Load[0] = 3.5, -1
		v.Snapshot.Nodes = v.Snapshot.Nodes[:2]
		v.Snapshot.Failed = []job.Failure{{Node: "head", Err: errors.New("connection refused")}}
		v.Request.SkipUnreachable = true
	})))
	compareGolden(t, "dryrun-refused", DryRun(testView(t, func(v *JobView) { v.Request.Apps[0].N = 77 })))
	compareGolden(t, "dryrun-waits", DryRun(testView(t, func(v *JobView) { v.Request.Wait, v.Snapshot.Ahead = true, 2 })))
	compareGolden(t, "dryrun-unseen", DryRun(testView(t, func(v *JobView) {
		v.Request.Apps = v.Request.Apps[1:]
		v.Request.Nodes = v.Request.Nodes[2:]
		v.Snapshot.Nodes = []job.Node{{NodeDef: v.Request.Nodes[0]}}
	})))
}

func TestSpans(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": nil, "3": {3}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "0,2,4": {0, 2, 4}, "1-10 by 3": {1, 4, 7, 10}, "0-3": {0, 1, 2, 3},
	} {
		if got := foldNumbers(numbers); got != want {
			t.Errorf("spans(%v) = %q, want %q", numbers, got, want)
		}
	}
}
