package show

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

// golden compares a picture with that in testdata.
func golden(t *testing.T, name, got string) {
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

// captured is a node of the captures; allowed bounds its CPUs.
func captured(t *testing.T, id int, name, capture, allowed string) job.Node {
	arch := map[string]string{"kunpeng-128": "arm64", "power-256": "ppc64le"}[capture]
	return job.Node{
		NodeDef: job.NodeDef{ID: id, Name: name, Host: name, Origin: "hosts.txt:1"},
		Probe: job.Probe{Arch: cmp.Or(arch, "amd64"), Topology: pintest.Topology(t, "../testdata/nodes", capture, allowed),
			Load: [3]float64{0.25, 1, 1}, Memory: job.Memory{Total: 62<<30 + int64(id)<<20}},
	}
}

func TestTopology(t *testing.T) {
	kinds := []string{"vm-2", "xeon-32", "opteron-64", "kunpeng-128", "power-256", "hybrid-22"}
	var nodes []job.Node
	for i, capture := range kinds {
		nodes = append(nodes, captured(t, i, capture[:2]+"01", capture, ""))
		for k := range i {
			nodes = append(nodes, captured(t, i, fmt.Sprintf("%s%02d", capture[:2], k+2), capture, ""))
		}
	}
	nodes = append(nodes, captured(t, 90, "cut", "xeon-32", "0-3,17,24-31"), job.Node{NodeDef: job.NodeDef{Name: "gone"}})
	golden(t, "topology", Topology(nodes))
}

// What sets are made by is told, and nodes that differ in it are told apart.
func TestTopologyTraits(t *testing.T) {
	fast := job.Traits{Speed: 3000, Quality: job.Nominal, Networks: []string{"eth1g", "ethernet", "ib", "ib-hdr"}, NetSpeed: 200000, CPUModel: "genuineintel-6-143", GPUModels: []string{"nvidia-h100"}}
	slow := fast
	slow.Speed, slow.GPUModels = 2000, nil
	var nodes []job.Node
	for i, traits := range []job.Traits{fast, slow, fast, {Speed: 2600, Quality: job.Measured}, {Speed: 2700, Quality: job.Measured}, {}} {
		n := captured(t, i, fmt.Sprint("n", i), "vm-2", "")
		n.Traits = traits
		nodes = append(nodes, n)
	}
	golden(t, "topology-traits", Topology(nodes))
}

// with gives a node the GPUs of another capture.
func with(t *testing.T, n job.Node, capture string) job.Node {
	found := gpu.Read(pintest.Root(t, "../testdata/nodes", capture), func(name string) bool { return name != "dev/nvidia7" })
	n.GPUs, n.Barred = found.GPUs, found.Barred
	return n
}

// GPUs are told of nodes and of ranks.
func TestGPUs(t *testing.T) {
	xeon := captured(t, 0, "g1", "xeon-32", "")
	golden(t, "topology-gpus", Topology([]job.Node{xeon, with(t, xeon, "gpu-dgx-8"), with(t, xeon, "gpu-amd-4"), with(t, xeon, "gpu-vm-2")}))
	equipped := func(v *View) {
		v.Request.Apps[0].N, v.Request.Apps[0].GPUs = 7, 1
		v.Request.Apps[1].GPUs = 2
		v.Snapshot.Nodes[0] = with(t, v.Snapshot.Nodes[0], "gpu-dgx-8")
		v.Snapshot.Nodes[1] = with(t, v.Snapshot.Nodes[1], "gpu-amd-4")
	}
	golden(t, "dryrun-gpus", DryRun(view(t, equipped)))
}

// view plans a job on two Xeons and the virtual machine.
func view(t *testing.T, change func(*View)) View {
	v := View{
		Request: job.Request{
			Apps: []job.App{{N: 34, Argv: []string{"/opt/bin/solver"}}, {N: 2, Argv: []string{"viz"}, Env: job.Env{Set: []string{"COLOUR=dark red"}}}},
			Base: job.Env{Set: []string{"PATH=/bin", "LANG=C", "FOO=1"}, Unset: []string{"TMP*"}},
		},
		Route:   func(n job.NodeDef) string { return "ssh as me" },
		Environ: []string{"PATH=/bin", "LANG=C", "FOO=0"},
	}
	v.Snapshot.Nodes = []job.Node{captured(t, 0, "n1", "xeon-32", ""), captured(t, 1, "n2", "xeon-32", ""), captured(t, 2, "head", "vm-2", "")}
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
	golden(t, "map", Map(view(t, nil)))
	golden(t, "map-cyclic", Map(view(t, func(v *View) { v.Request.Loop = true })))
	golden(t, "ranks", Ranks(view(t, func(v *View) { v.Request.Apps[0].N, v.Request.Apps[0].Threads = 4, 6 })))
	golden(t, "ranks-free", Ranks(view(t, func(v *View) { v.Request.Apps[0].N, v.Request.NoPin = 2, true })))
	golden(t, "hosts", Hosts(view(t, nil)))
}

func TestDryRun(t *testing.T) {
	small := func(v *View) {
		v.Request.Apps[0].N, v.Request.Apps[0].Threads, v.Request.Apps[0].ThreadsFrom = 5, 4, "OMP_NUM_THREADS"
	}
	golden(t, "dryrun", DryRun(view(t, small)))
	golden(t, "dryrun-load", DryRun(view(t, func(v *View) {
		small(v)
		v.Request.Sort = "LOAD"
		v.Snapshot.Nodes[0].Load[0], v.Snapshot.Nodes[2].Load[0] = 3.5, -1
		v.Snapshot.Nodes = v.Snapshot.Nodes[:2]
		v.Snapshot.Failed = []job.Failure{{Node: "head", Err: errors.New("connection refused")}}
		v.Request.Skip = true
	})))
	golden(t, "dryrun-refused", DryRun(view(t, func(v *View) { v.Request.Apps[0].N = 77 })))
	golden(t, "dryrun-waits", DryRun(view(t, func(v *View) { v.Request.Wait, v.Snapshot.Ahead = true, 2 })))
	golden(t, "dryrun-unseen", DryRun(view(t, func(v *View) {
		v.Request.Apps = v.Request.Apps[1:]
		v.Request.Nodes = v.Request.Nodes[2:]
		v.Snapshot.Nodes = []job.Node{{NodeDef: v.Request.Nodes[0]}}
	})))
}

func TestSpans(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": nil, "3": {3}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "0,2,4": {0, 2, 4}, "1-10 by 3": {1, 4, 7, 10}, "0-3": {0, 1, 2, 3},
	} {
		if got := spans(numbers); got != want {
			t.Errorf("spans(%v) = %q, want %q", numbers, got, want)
		}
	}
}
