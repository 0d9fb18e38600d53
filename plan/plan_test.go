package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// cluster parses "a:4 b:2/1 c:8=x d:1-3": names and CPUs. After a slash stand the written slots, after =
// the identity of a machine with two names, and after a minus the number of CPUs outside the mask.
func cluster(text string) job.Snapshot {
	var snap job.Snapshot
	for i, word := range strings.Fields(text) {
		word, identity, _ := strings.Cut(word, "=")
		name, numbers, _ := strings.Cut(word, ":")
		numbers, slots, _ := strings.Cut(numbers, "/")
		cpus, shut, _ := strings.Cut(numbers, "-")
		n := job.Node{NodeDef: job.NodeDef{ID: i, Name: name}}
		n.Slots, _ = strconv.Atoi(slots)
		cores, _ := strconv.Atoi(cpus)
		for cpu := range cores {
			n.Topology.Cores = append(n.Topology.Cores, pin.Core{CPUs: []int{cpu}})
		}
		outside, _ := strconv.Atoi(shut)
		for cpu := range outside {
			n.Topology.Cores = append(n.Topology.Cores, pin.Core{Unusable: []int{cores + cpu}})
		}
		n.Identity = identity
		if identity == "" {
			n.Identity = name
		}
		snap.Nodes = append(snap.Nodes, n)
	}
	return snap
}

// requestFor returns the request for all nodes of a cluster.
func requestFor(req job.Request, snap job.Snapshot) (job.Request, job.Snapshot) {
	for _, n := range snap.Nodes {
		req.Nodes = append(req.Nodes, n.NodeDef)
	}
	return req, snap
}

// nodesByRank formats the node of each rank: "a a b".
func nodesByRank(p job.Plan) string {
	names := make([]string, p.Size)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			names[r.Rank] = n.Name
		}
	}
	return strings.Join(names, " ")
}

func TestMake(t *testing.T) {
	over := job.Placement{Overbook: true}
	apps := func(numbers ...int) (apps []job.App) {
		for _, n := range numbers {
			apps = append(apps, job.App{N: n})
		}
		return apps
	}
	ppn := func(most, n int) []job.App { return []job.App{{N: n, RankNeeds: job.RankNeeds{PerNode: most}}} }
	tests := []struct {
		name, cluster string
		req           job.Request
		want          string // or "error CODE"
		text          string // part of the error or of a note
	}{
		{"one node is enough", "a:4 b:4", job.Request{Apps: apps(4)}, "a a a a", ""},
		{"spill over", "a:4 b:4", job.Request{Apps: apps(6)}, "a a a a b b", ""},
		{"no -n takes every slot", "a:1 b:2", job.Request{Apps: apps(0)}, "a b b", ""},
		{"no -n with -ppn", "a:4 b:4", job.Request{Apps: ppn(2, 0)}, "a a b b", ""},
		{"slots written down replace the CPUs", "a:2/3 b:2/1", job.Request{Apps: apps(4)}, "a a a b", ""},
		{"-ppn", "a:4 b:4", job.Request{Apps: ppn(2, 3)}, "a a b", ""},
		{"too many", "a:2 b:2", job.Request{Apps: apps(5)}, "error not-enough-cpus", "5 ranks do not fit: there are free slots for only 4 ranks on 2 nodes (a,b)"},
		{"a mask leaves too little", "a:1-3 b:2 c:1-3", job.Request{Apps: apps(5)}, "error not-enough-cpus",
			"slots for only 4 ranks on 3 nodes (a,b,c); on a,c the CPU mask or cpuset leaves 1 of 4 cores"},
		{"a mask leaves too few for one", "a:1-3", job.Request{Apps: []job.App{{N: 1, RankNeeds: job.RankNeeds{CPUsPerRank: 2}}}}, "error no-candidates", ""},
		{"a mask does not matter to slots written down", "a:1-3/2", job.Request{Apps: apps(3)}, "error not-enough-cpus", "2 ranks on 1 node (a)"},
		{"a try-out under a mask", "a:1-1", job.Request{Apps: apps(2), LocalOnly: true}, "a a",
			"2 ranks share 1 CPU (the CPU mask or cpuset leaves 1 of 2 cores). To hide"},
		{"-ppn is too small", "a:4 b:4", job.Request{Apps: ppn(2, 5)}, "error not-enough-cpus", "-ppn 2 allows only 4"},
		{"overbooked by slots", "a:4 b:2", job.Request{Apps: apps(9), Placement: over}, "a a a a a a b b b", ""},
		{"largest remainder", "a:4 b:2", job.Request{Apps: apps(7), Placement: over}, "a a a a a b b", ""},
		{"overbooked within -ppn", "a:1 b:4", job.Request{Apps: ppn(4, 6), Placement: over}, "a a b b b b", ""},
		{"overbooked beyond -ppn", "a:1 b:4", job.Request{Apps: ppn(4, 9), Placement: over}, "error limit-reached", ""},
		{"nothing named is a try-out", "a:2", job.Request{Apps: apps(3), LocalOnly: true}, "a a a", "3 ranks share 2 CPUs"},
		{"unless that is forbidden", "a:2", job.Request{Apps: apps(3), LocalOnly: true, Placement: job.Placement{NoOversubscribe: true}}, "error not-enough-cpus", ""},
		{"two apps", "a:2 b:2", job.Request{Apps: apps(1, 2)}, "a a b", ""},
		{"apps with hosts of their own", "a:2 b:2", job.Request{Apps: []job.App{{N: 1, Hosts: []string{"b"}}, {N: 2, Hosts: []string{"a"}}}}, "b a a", ""},
		{"two names of one machine", "a:2=m b:2=m c:2", job.Request{Apps: apps(3)}, "a a c", "a and b are the same machine"},
		{"many names of one machine", "a1:2=m a2:2=m a3:2=m", job.Request{Apps: apps(2)}, "a1 a1", "a[1-3] are the same machine"},
		{"apps that name one machine each in its way", "a:2/1=m b:2/2=m",
			job.Request{Apps: []job.App{{N: 1, Hosts: []string{"a"}}, {N: 2, Hosts: []string{"b"}}}}, "a a a", ""},
		{"an app whose hosts were not reached", "a:2", job.Request{Apps: []job.App{{N: 1, Hosts: []string{"a"}},
			{N: 2, Argv: []string{"./sim"}, Hosts: []string{"b", "c"}}}}, "error no-candidates", "can take ./sim, which may run only on b,c"},
		{"their slots add up", "a:2/1=m b:2/2=m", job.Request{Apps: apps(3)}, "a a a", ""},
		{"by load", "a:2 b:2", job.Request{Apps: apps(2), Placement: job.Placement{Sort: "LOAD"}}, "a a", ""},
		{"unknown order", "a:2", job.Request{Apps: apps(1), Placement: job.Placement{Sort: "COLOUR"}}, "error bad-sort", "unknown sort criterion"},
		{"no node", "", job.Request{Apps: apps(1)}, "error no-candidates", ""},
	}
	for _, test := range tests {
		p, err := Make(requestFor(test.req, cluster(test.cluster)))
		got, text := nodesByRank(p), ""
		var failed *Error
		if errors.As(err, &failed) {
			got, text = "error "+failed.Code, failed.Text
		}
		for _, note := range p.Notes {
			text += note.Text
		}
		if got != test.want || !strings.Contains(text, test.text) {
			t.Errorf("%s: got %q, text %q; want %q, %q", test.name, got, text, test.want, test.text)
		}
	}
}

func TestMaxSlotsHoldWhenOverbooked(t *testing.T) {
	snap := cluster("a:2 b:2")
	snap.Nodes[0].MaxSlots = 3
	p, err := Make(requestFor(job.Request{Apps: []job.App{{N: 10}}, Placement: job.Placement{Overbook: true}}, snap))
	if got := strings.Count(nodesByRank(p), "a"); err != nil || got != 3 {
		t.Errorf("%d ranks on a, %v; want 3", got, err)
	}
}

// For any nodes: every rank is placed once, and no node has more ranks than slots unless overbooked.
// Overbooked shares differ from the exact ones by less than one.
func TestPlacementProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		var text string
		slots := map[string]int{}
		total := 0
		for i := range 1 + r.IntN(6) {
			name, cpus := fmt.Sprintf("n%d", i), 1+r.IntN(8)
			text += fmt.Sprintf("%s:%d ", name, cpus)
			slots[name] = cpus
			total += cpus
		}
		n := 1 + r.IntN(2*total)
		p, err := Make(requestFor(job.Request{Apps: []job.App{{N: n}}, Placement: job.Placement{Overbook: true}}, cluster(text)))
		if err != nil {
			t.Fatalf("%s -n %d: %v", text, n, err)
		}
		seen := make([]bool, n)
		for _, node := range p.Nodes {
			exact := float64(n) * float64(slots[node.Name]) / float64(total)
			got := float64(len(node.Ranks))
			if n <= total && len(node.Ranks) > slots[node.Name] || n > total && (got-exact >= 1 || exact-got >= 1) {
				t.Errorf("%s -n %d: %d ranks on %s", text, n, len(node.Ranks), node.Name)
			}
			for i, rank := range node.Ranks {
				if seen[rank.Rank] || rank.Local != i {
					t.Errorf("%s -n %d: %+v twice or out of order", text, n, rank)
				}
				seen[rank.Rank] = true
			}
		}
	}
}

// A refusal names the limit that excludes ranks, and a remedy that helps.
func TestRefusalsNameTheCause(t *testing.T) {
	two := 2
	nodes := func() job.Request {
		return job.Request{Nodes: []job.NodeDef{{ID: 0, Name: "a"}, {ID: 1, Name: "b", NodePolicy: job.NodePolicy{MaxProcs: &two}}}}
	}
	tests := []struct {
		name   string
		change func(*job.Request)
		want   string
	}{
		{"a limit below the free slots", func(r *job.Request) {},
			"7 ranks do not fit: there are free slots for only 6 ranks on 2 nodes (a,b), where maxproc of the cluster file allows 2 on b; start fewer ranks, add hosts, give slots (HOST:N), or share CPUs with --oversubscribe"},
		{"overbooking against a limit", func(r *job.Request) { r.Overbook, r.Nodes = true, r.Nodes[1:] },
			"7 ranks do not fit: maxproc of the cluster file allows only 2 ranks on 1 node (b); raise this limit, or add hosts"},
		{"overbooking forbidden", func(r *job.Request) { r.NoOversubscribe, r.Nodes = true, r.Nodes[:1] },
			"7 ranks do not fit: there are free slots for only 4 ranks on 1 node (a); start fewer ranks, add hosts, give slots (HOST:N), or use --oversubscribe instead of --nooversubscribe"},
		{"slots that were written down", func(r *job.Request) { r.Nodes = r.Nodes[:1]; r.Nodes[0].Slots = 3 },
			"7 ranks do not fit: there are free slots for only 3 ranks on 1 node (a); start fewer ranks, add hosts, give more slots (HOST:N), or share CPUs with --oversubscribe"},
		{"the second of two apps", func(r *job.Request) {
			r.Apps = append([]job.App{{N: 1, Argv: []string{"x"}}}, job.App{N: 1, Argv: []string{"./y"}, RankNeeds: job.RankNeeds{CPUsPerRank: 4, CPUsPerRankOrigin: "--tpp"}})
			r.Nodes = r.Nodes[:1]
		}, "1 rank (./y) of 4 CPUs each (--tpp) does not fit: there are free slots for no rank on 1 node (a); start fewer ranks, add hosts, give slots (HOST:N), or share CPUs with --oversubscribe"},
	}
	for _, test := range tests {
		req := nodes()
		req.Apps = []job.App{{N: 7}}
		test.change(&req)
		var snap job.Snapshot
		for _, def := range req.Nodes {
			n := job.Node{NodeDef: def}
			for cpu := range 4 {
				n.Topology.Cores = append(n.Topology.Cores, pin.Core{CPUs: []int{cpu}})
			}
			snap.Nodes = append(snap.Nodes, n)
		}
		_, err := Make(req, snap)
		var failed *Error
		if !errors.As(err, &failed) || failed.Text+"; "+failed.Remedy != test.want {
			t.Errorf("%s: %v; want %s", test.name, err, test.want)
		}
	}
}
