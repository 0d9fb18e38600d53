package plan

import (
	"fmt"
	"testing"
	"time"

	"remshell/job"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// wideCluster is 10,000 nodes of 64 CPUs in 200 sets, by feature and by speed. The nodes of the first
// sets have all CPUs but one in use, as many of them as are to be full.
func wideCluster(full int) (job.Request, job.Snapshot) {
	topology := pin.Topology{Cores: make([]pin.Core, 64)}
	for i := range topology.Cores {
		topology.Cores[i] = pin.Core{CPUs: []int{i}, Place: pin.Nowhere}
	}
	req := job.Request{Apps: []job.App{{N: 3000}}, Placing: job.Placing{Sort: "PROC"}}
	var snap job.Snapshot
	for i := range 10_000 {
		set := i / 50
		def := job.NodeDef{ID: i, Name: fmt.Sprintf("n%05d", i), Policy: job.Policy{Features: []string{fmt.Sprintf("s%03d", set)},
			Attributes: nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.Whole(int64(2000 + 5*set))}}}}
		n := job.Node{NodeDef: def, Probe: job.Probe{Topology: topology}}
		if set < full {
			n.Procs = 63
		}
		req.Nodes, snap.Nodes = append(req.Nodes, def), append(snap.Nodes, n)
	}
	return req, snap
}

func request(t testing.TB, text string) nodeset.Setting {
	t.Helper()
	kinds, _ := nodeset.KindsOf(0, nil)
	s, err := nodeset.Levels{Flags: nodeset.Level{Spec: &text}, MaxDelay: time.Hour}.Resolve(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The goal is at most 1.2 times what a plan costs without sets.
func BenchmarkChoose(b *testing.B) {
	for _, bench := range []struct {
		name  string
		full  int
		ranks int
		say   func(*job.Request)
	}{
		{"without", 0, 3000, func(*job.Request) {}},
		{"bestfit", 0, 3000, func(r *job.Request) { r.Set = request(b, "ONEOF:FEATURE"); r.Set.Priority = nodeset.BestFit }},
		{"without-full", 199, 3000, func(*job.Request) {}},
		{"firstof-last", 199, 3000, func(r *job.Request) { r.Set = request(b, "FIRSTOF:FEATURE") }},
		{"without-wide", 0, 320_000, func(*job.Request) {}},
		{"span", 0, 320_000, func(r *job.Request) { r.Set = request(b, "ONEOF:FEATURE"); r.Set.Plus.SpanEvenly = true }},
		{"minloss", 0, 3000, func(r *job.Request) {
			r.Set = request(b, "ONEOF:PROCSPEED")
			r.Set.Tolerance, r.Set.Priority = 500_000, nodeset.MinLoss
		}},
		{"maxbalance", 0, 3000, func(r *job.Request) { r.Balance = true }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			req, snap := wideCluster(bench.full)
			req.Apps[0].N = bench.ranks
			bench.say(&req)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Make(req, snap); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
