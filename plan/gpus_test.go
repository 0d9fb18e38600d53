package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"remshell/gpu"
	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// nodesWithGPUs makes nodes from "n1:8/2+0011 n2:4": name, cores, and number of NUMA nodes that divide
// them in blocks. After the plus stands the NUMA node of each NVIDIA GPU (x for unknown), after a minus
// the GPUs that other jobs use.
func nodesWithGPUs(text string) job.Snapshot {
	var snap job.Snapshot
	for i, word := range strings.Fields(text) {
		word, held, _ := strings.Cut(word, "-")
		word, gpus, _ := strings.Cut(word, "+")
		n := job.Node{NodeDef: job.NodeDef{ID: i}}
		var cores, numa int
		name, size, _ := strings.Cut(word, ":")
		n.Name, n.Identity = name, name
		if _, err := fmt.Sscanf(size, "%d/%d", &cores, &numa); err != nil {
			numa = 1
		}
		for cpu := range cores {
			n.Topology.Cores = append(n.Topology.Cores, pin.Core{CPUs: []int{cpu}, CoreLocation: pin.CoreLocation{NUMA: cpu * numa / cores, Package: cpu * numa / cores}})
		}
		for k, at := range gpus {
			n.GPUs = append(n.GPUs, gpu.GPU{Vendor: gpu.NVIDIA, Index: k, Address: fmt.Sprintf("0000:%02x:00.0", k+16), NUMA: int(at - '0')})
			if at == 'x' {
				n.GPUs[k].NUMA = -1
			}
		}
		for _, digit := range held {
			n.BusyGPUs = append(n.BusyGPUs, n.GPUs[digit-'0'].Address)
		}
		snap.Nodes = append(snap.Nodes, n)
	}
	return snap
}

// cpusAndGPUs formats the ranks of a plan as "n1:cpus/gpus", in rank order.
func cpusAndGPUs(p job.Plan) string {
	ranks := make([]string, p.Size)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			numbers, _, _ := strings.Cut(gpu.FormatGPUs(r.GPUs), " ")
			ranks[r.Rank] = fmt.Sprintf("%s:%s/%s", n.Name, idset.Text(r.CPUs), numbers)
		}
	}
	return strings.Join(ranks, " ")
}

// appsWithGPUs returns an app whose ranks need GPUs.
func appsWithGPUs(ranks, gpus int) []job.App {
	return []job.App{{N: ranks, Argv: []string{"a"}, RankNeeds: job.RankNeeds{GPUs: gpus}}}
}

func TestGPUs(t *testing.T) {
	thick := appsWithGPUs(2, 2)
	thick[0].CPUsPerRank = 3
	both := append(appsWithGPUs(2, 0), appsWithGPUs(2, 1)...)
	for _, test := range []struct {
		name, nodes string
		req         job.Request
		want        string
	}{
		{"not asked for", "n1:4/2+0011", job.Request{Apps: appsWithGPUs(2, 0)}, "n1:0/ n1:1/"},
		{"none to be seen", "n1:4", job.Request{Apps: appsWithGPUs(2, job.NoGPUs)}, "n1:0/ n1:1/"},
		{"cores near each", "n1:4/2+0011", job.Request{Apps: appsWithGPUs(4, 1)}, "n1:0/0 n1:1/1 n1:2/2 n1:3/3"},
		{"woven", "n1:4/2+1010", job.Request{Apps: appsWithGPUs(4, 1)}, "n1:2/0 n1:0/1 n1:3/2 n1:1/3"},
		{"two each, of one memory node", "n1:4/2+0101", job.Request{Apps: appsWithGPUs(2, 2)}, "n1:0/0,2 n1:2/1,3"},
		{"wide ranks", "n1:8/2+0101", job.Request{Apps: thick}, "n1:0-2/0,2 n1:4-6/1,3"},
		{"the count bounds a node", "n1:8+0000 n2:8+0000", job.Request{Apps: appsWithGPUs(8, 1)},
			"n1:0/0 n1:1/1 n1:2/2 n1:3/3 n2:0/0 n2:1/1 n2:2/2 n2:3/3"},
		{"no number: all that GPUs allow", "n1:8+00 n2:8+0", job.Request{Apps: appsWithGPUs(0, 1)}, "n1:0/0 n1:1/1 n2:0/0"},
		{"nodes without are passed over", "n1:8 n2:8+00", job.Request{Apps: appsWithGPUs(2, 1)}, "n2:0/0 n2:1/1"},
		{"others' are not free", "n1:8+0000-02 n2:8+00", job.Request{Apps: appsWithGPUs(3, 1)}, "n1:0/1 n1:1/3 n2:0/0"},
		{"in turn", "n1:8+0 n2:8+00", job.Request{Apps: appsWithGPUs(3, 1), Placement: job.Placement{RoundRobin: true}}, "n1:0/0 n2:0/0 n2:1/1"},
		{"virtual machine", "n1:4+xx", job.Request{Apps: appsWithGPUs(2, 1)}, "n1:0/0 n1:1/1"},
		{"some apps only", "n1:4/2+11", job.Request{Apps: both}, "n1:0/ n1:1/ n1:2/0 n1:3/1"},
		{"no CPUs left near", "n1:4/2+111", job.Request{Apps: appsWithGPUs(3, 1)}, "n1:2/0 n1:3/1 n1:0/2"},
		{"cores are short near the first", "n1:4/2+01", job.Request{Apps: append(appsWithGPUs(1, 0), appsWithGPUs(1, 1)...)}, "n1:1/ n1:0/0"},
		{"shared CPUs, own GPUs", "n1:1+00", job.Request{Apps: appsWithGPUs(2, 1), Placement: job.Placement{Overbook: true}}, "n1:0/0 n1:0/1"},
		{"not bound", "n1:4/2+10", job.Request{Apps: appsWithGPUs(2, 1), Placement: job.Placement{NoPin: true}}, "n1:/0 n1:/1"},
	} {
		p, err := Make(requestFor(test.req, nodesWithGPUs(test.nodes)))
		if got := cpusAndGPUs(p); err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// If the CPUs are chosen already, the GPUs near them are chosen.
func TestGPUsNearCPUsThatWereWrittenDown(t *testing.T) {
	var bySocket pin.Layout
	if err := bySocket.Map.UnmarshalText([]byte("socket")); err != nil {
		t.Fatal(err)
	}
	req, snap := requestFor(job.Request{Apps: appsWithGPUs(2, 1), Placement: job.Placement{Layout: bySocket}}, nodesWithGPUs("n1:4/2+0011"))
	if p, err := Make(req, snap); err != nil || cpusAndGPUs(p) != "n1:0/0 n1:2/2" {
		t.Errorf("--map-by socket: %s, %v", cpusAndGPUs(p), err)
	}
	req, snap = requestFor(job.Request{Apps: appsWithGPUs(2, 1), Placement: job.Placement{CPUMap: []int{3, 0, 1, 2}}}, nodesWithGPUs("n1:4/2+0011"))
	req.Nodes[0].UserCPUMap = true
	if p, err := Make(req, snap); err != nil || cpusAndGPUs(p) != "n1:3/2 n1:0/0" {
		t.Errorf("--cpu-map: %s, %v", cpusAndGPUs(p), err)
	}
	picks := func(text string) []pin.CPURange {
		list, err := pin.ParseCPURanges(text)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	req, snap = requestFor(job.Request{Apps: appsWithGPUs(2, 1), FixedPlacements: []job.FixedPlacement{{Picks: picks("2")}, {Picks: picks("0")}}}, nodesWithGPUs("n1:4/2+0011"))
	if p, err := Make(req, snap); err != nil || cpusAndGPUs(p) != "n1:2/2 n1:0/0" {
		t.Errorf("rank file: %s, %v", cpusAndGPUs(p), err)
	}
	req.Apps = appsWithGPUs(2, 3)
	if _, err := Make(req, snap); err == nil || !strings.Contains(err.Error(), "rank 1 does not fit on n1: -gpus-per-proc 3 allows only 1 rank on this host") {
		t.Errorf("rank file and too few: %v", err)
	}
}

func TestTooFewGPUs(t *testing.T) {
	barred := nodesWithGPUs("n1:8 n2:8")
	barred.Nodes[0].WithheldGPUs, barred.Nodes[1].WithheldGPUs = 2, 2
	few := nodesWithGPUs("n1:2+0000")
	unlisted := job.Request{Apps: appsWithGPUs(1, 1), HostEntries: []int{1, 1}}
	for _, test := range []struct {
		name      string
		snap      job.Snapshot
		req       job.Request
		want, way string
		permanent bool
	}{
		{"none anywhere", nodesWithGPUs("n1:8 n2:8"), job.Request{Apps: appsWithGPUs(2, 1)},
			"n[1-2]: -gpus-per-proc 1: no GPU there", "use hosts with GPUs, or leave out the option", true},
		{"none on the list", nodesWithGPUs("n1:8+00 n2:8"), unlisted,
			"n2: -gpus-per-proc 1: no GPU there", "use hosts with GPUs, or leave out the option", true},
		{"none that may be used", barred, job.Request{Apps: appsWithGPUs(2, 1)},
			"n[1-2]: -gpus-per-proc 1: ranks may use none of the 2 GPUs of the host", "use hosts with GPUs", true},
		{"fewer than a rank needs", nodesWithGPUs("n1:8+00"), job.Request{Apps: appsWithGPUs(1, 4)},
			"n1: -gpus-per-proc 4: the host has 2 GPUs, but each rank needs 4", "use hosts with GPUs", true},
		{"too many ranks", nodesWithGPUs("n1:8+00 n2:8+000"), job.Request{Apps: appsWithGPUs(5, 2)},
			"5 ranks do not fit with -gpus-per-proc 2: mpiexec found 5 free GPUs on 2 nodes (n[1-2]), which is enough for 2 ranks",
			"start fewer ranks, or add hosts; without this option, all ranks share the GPUs", true},
		{"--overbook does not help", nodesWithGPUs("n1:8+0"), job.Request{Apps: appsWithGPUs(2, 1), Placement: job.Placement{Overbook: true}},
			"2 ranks do not fit with -gpus-per-proc 1: mpiexec found 1 free GPU on 1 node (n1), which is enough for 1 rank",
			"start fewer ranks, or add hosts; without this option, all ranks share the GPUs", true},
		{"a try-out neither", nodesWithGPUs("n1:8+0"), job.Request{Apps: appsWithGPUs(2, 1), LocalOnly: true},
			"2 ranks do not fit with -gpus-per-proc 1: mpiexec found 1 free GPU on 1 node (n1), which is enough for 1 rank",
			"start fewer ranks, or add hosts; without this option, all ranks share the GPUs", true},
		{"others have some", nodesWithGPUs("n1:8+0000-012"), job.Request{Apps: appsWithGPUs(2, 1)},
			"2 ranks do not fit with -gpus-per-proc 1: mpiexec found 1 free GPU on 1 node (n1), which is enough for 1 rank; other jobs use 3",
			"start fewer ranks, or add hosts; or use --wait to wait for other jobs to end", false},
		{"others have all", nodesWithGPUs("n1:8+00-01"), job.Request{Apps: appsWithGPUs(1, 1)},
			"no host can take this job now", "use other hosts, or drop some requirements; or use --wait to wait for other jobs to end", false},
		{"CPUs are what is short", few, job.Request{Apps: appsWithGPUs(4, 1)},
			"4 ranks do not fit: there are free slots for only 2 ranks on 1 node (n1)", "start fewer ranks, add hosts, give slots (HOST:N), or share CPUs with --oversubscribe", true},
	} {
		_, err := Make(requestFor(test.req, test.snap))
		var failed *Error
		if !errors.As(err, &failed) {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if failed.Text != test.want || failed.Remedy != test.way || failed.Permanent != test.permanent {
			t.Errorf("%s: %s; %s; permanent %v\nwant %s; %s; %v", test.name, failed.Text, failed.Remedy, failed.Permanent, test.want, test.way, test.permanent)
		}
	}
}

// A GPU belongs to only one of the nodes into which a machine is divided.
func TestSeparateNodesShareNoGPU(t *testing.T) {
	snap := nodesWithGPUs("m:8+0000")
	nodes := []job.Node{snap.Nodes[0], snap.Nodes[0], snap.Nodes[0]}
	for i := range nodes {
		nodes[i].ID, nodes[i].Name, nodes[i].SeparateNode = i, fmt.Sprint("sim", i), true
	}
	for range 2 {
		Partition(nodes)
	}
	var got []string
	for _, n := range nodes {
		got = append(got, gpu.FormatGPUs(n.GPUs))
	}
	if text := strings.Join(got, " | "); text != "0 (nvidia) | 1 (nvidia) | 2,3 (nvidia)" {
		t.Error(text)
	}
}

// For any request: no GPU is assigned twice or used by another job, each rank has as many as requested,
// and CPUs are as disjoint as without GPUs.
func TestGPUProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	planned := 0
	for range 2000 {
		var words []string
		for k := range 1 + r.IntN(3) {
			word := fmt.Sprintf("n%d:%d/%d", k, 1+r.IntN(12), 1+r.IntN(2))
			if n := r.IntN(6); n > 0 {
				word += "+"
				for range n {
					word += []string{"0", "1", "x"}[r.IntN(3)]
				}
				if r.IntN(3) == 0 {
					word += fmt.Sprint("-", r.IntN(n))
				}
			}
			words = append(words, word)
		}
		req := job.Request{Placement: job.Placement{RoundRobin: r.IntN(3) == 0, Overbook: r.IntN(4) == 0}}
		for range 1 + r.IntN(2) {
			app := appsWithGPUs(r.IntN(6), r.IntN(3))[0]
			app.N = max(1, app.N)
			app.CPUsPerRank = r.IntN(3)
			req.Apps = append(req.Apps, app)
		}
		snap := nodesWithGPUs(strings.Join(words, " "))
		p, err := Make(requestFor(req, snap))
		if err != nil {
			continue
		}
		planned++
		for _, n := range p.Nodes {
			gpus, cpus := make(map[string]bool), make(map[int]bool)
			for _, rank := range n.Ranks {
				if len(rank.GPUs) != req.Apps[rank.App].GPUs {
					t.Fatalf("%v %+v: rank %d has %d GPUs", words, req.Apps, rank.Rank, len(rank.GPUs))
				}
				for _, g := range rank.GPUs {
					if gpus[g.Address] || slices.Contains(snap.Nodes[n.Node].BusyGPUs, g.Address) {
						t.Fatalf("%v %+v: %s twice", words, req.Apps, g.Address)
					}
					gpus[g.Address] = true
				}
				for _, cpu := range rank.CPUs {
					if cpus[cpu] && !p.Overbooked {
						t.Fatalf("%v %+v: CPU %d twice", words, req.Apps, cpu)
					}
					cpus[cpu] = true
				}
				if len(rank.CPUs) != max(1, req.Apps[rank.App].CPUsPerRank) && !p.Overbooked || !slices.IsSorted(rank.Slots) {
					t.Fatalf("%v %+v: rank %d: slots %v, CPUs %v", words, req.Apps, rank.Rank, rank.Slots, rank.CPUs)
				}
			}
		}
	}
	if planned < 500 {
		t.Errorf("only %d of 2000 could be planned", planned)
	}
}

// A node that was not probed may have GPUs, even if its slots were written.
func TestUnseenNodesMayHaveGPUs(t *testing.T) {
	for name, test := range map[string]struct {
		slots, ranks, gpus int
		permanent          bool
	}{"slots": {4, 2, 1, false}, "no slots": {0, 2, 1, false}, "too few slots": {4, 9, 0, true}} {
		req := job.Request{Nodes: []job.NodeDef{{Name: "n1", Slots: test.slots}}, Apps: appsWithGPUs(test.ranks, test.gpus)}
		_, err := Make(req, job.Snapshot{Failed: []job.Failure{{Node: "n1", Err: errors.New("no answer")}}})
		var failed *Error
		if !errors.As(err, &failed) || failed.Permanent != test.permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// GPUs of other jobs do not restrict jobs without GPUs.
func TestNoGPUsCostNothing(t *testing.T) {
	snap := nodesWithGPUs("n1:64/2+0011")
	n := candidate{Node: snap.Nodes[0]}
	n.countFree()
	s := &placement{req: job.Request{Apps: appsWithGPUs(8, 0)}}
	ranks := make([]job.RankPlan, 8)
	if cost := testing.AllocsPerRun(10, func() { s.assignGPUs(&n, ranks) }); cost > 0 {
		t.Errorf("%v allocations", cost)
	}
}
