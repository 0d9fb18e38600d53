package plan

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"remshell/job"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// wideCluster returns 10,000 nodes of 64 CPUs in 200 sets, by feature and by speed. busy returns how many
// CPUs of a node are in use, by its set and its index among all nodes.
func wideCluster(busy func(set, place int) int) (job.Request, job.Snapshot) {
	topology := pin.Topology{Cores: make([]pin.Core, 64)}
	for i := range topology.Cores {
		topology.Cores[i] = pin.Core{CPUs: []int{i}, CoreLocation: pin.UnknownLocation}
	}
	req := job.Request{Apps: []job.App{{N: 3000}}, Placement: job.Placement{Sort: "PROC"}}
	var snap job.Snapshot
	for i := range wideClusters {
		set := i / 50
		def := job.NodeDef{ID: i, Name: fmt.Sprintf("n%05d", i), NodePolicy: job.NodePolicy{Features: []string{fmt.Sprintf("s%03d", set)},
			Attributes: nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(int64(2000 + 5*set))}}}}
		n := job.Node{NodeDef: def, Probe: job.Probe{Topology: topology}}
		n.Ranks = busy(set, i)
		req.Nodes, snap.Nodes = append(req.Nodes, def), append(snap.Nodes, n)
	}
	return req, snap
}

const wideClusters = 10_000

// The functions set which CPUs are in use: none; all but one CPU in all sets but the last; or all CPUs of
// every second node, and one CPU of the others except the last. The third makes 5,000 contiguous runs of
// which only the last can run 64 ranks.
func nobodyBusy(int, int) int { return 0 }

func mostlyBusy(set, _ int) int {
	if set < 199 {
		return 63
	}
	return 0
}

func alternatelyBusy(_, place int) int {
	switch {
	case place == wideClusters-1:
		return 0
	case place%2 == 0:
		return 64
	}
	return 1
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

// nodeChoices are jobs that restrict their choice of nodes.
var nodeChoices = []struct {
	name  string
	busy  func(set, place int) int
	ranks int
	say   func(testing.TB, *job.Request)
}{
	{"bestfit", nobodyBusy, 3000, func(t testing.TB, r *job.Request) {
		r.NodeSet = request(t, "ONEOF:FEATURE")
		r.NodeSet.Priority = nodeset.BestFit
	}},
	{"firstof-last", mostlyBusy, 3000, func(t testing.TB, r *job.Request) { r.NodeSet = request(t, "FIRSTOF:FEATURE") }},
	{"span", nobodyBusy, 320_000, func(t testing.TB, r *job.Request) {
		r.NodeSet = request(t, "ONEOF:FEATURE")
		r.NodeSet.Plus.SpanEvenly = true
	}},
	{"minloss", nobodyBusy, 3000, func(t testing.TB, r *job.Request) {
		r.NodeSet = request(t, "ONEOF:PROCSPEED")
		r.NodeSet.Tolerance, r.NodeSet.Priority = 500_000, nodeset.MinLoss
	}},
	{"maxbalance", nobodyBusy, 3000, func(_ testing.TB, r *job.Request) { r.Balance = true }},
	{"contiguous", alternatelyBusy, 64, func(_ testing.TB, r *job.Request) { r.Contiguous = job.ContiguousFirst }},
	{"contiguous-best", alternatelyBusy, 64, func(_ testing.TB, r *job.Request) { r.Contiguous = job.ContiguousBest }},
}

// The goal is at most 1.2 times the cost of a plan without a choice of nodes, in time and in memory.
// Medians of 21 plans are compared, measured alternately with those of the same job without a choice. One
// run is enough: -benchtime 1x.
func BenchmarkChoose(b *testing.B) {
	const plans = 21
	for _, c := range nodeChoices {
		b.Run(c.name, func(b *testing.B) {
			plain, snap := wideCluster(c.busy)
			plain.Apps[0].N = c.ranks
			asking := plain
			c.say(b, &asking)
			for b.Loop() {
				var with, without [plans]cost
				for i := range plans {
					with[i], without[i] = costOf(b, asking, snap), costOf(b, plain, snap)
				}
				own, other := medians(with[:]), medians(without[:])
				b.ReportMetric(float64(own.time)/float64(time.Millisecond), "ms/plan")
				b.ReportMetric(float64(own.time)/float64(other.time), "x-time")
				b.ReportMetric(float64(own.bytes)/float64(other.bytes), "x-memory")
			}
		})
	}
}

// A cost is the time and the allocated bytes of one plan.
type cost struct {
	time  time.Duration
	bytes uint64
}

func costOf(b *testing.B, req job.Request, snap job.Snapshot) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	if _, err := Make(req, snap); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return cost{took, after.TotalAlloc - before.TotalAlloc}
}

// medians returns the median time and the median number of bytes.
func medians(all []cost) (m cost) {
	slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.time, b.time) })
	m.time = all[len(all)/2].time
	slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.bytes, b.bytes) })
	m.bytes = all[len(all)/2].bytes
	return m
}
