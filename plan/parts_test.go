package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"remshell/job"
)

// Several apps are placed on one state (5.7): slots of earlier apps are used up, placement continues where
// the last app stopped, and an app that does not fit fails the job.
func TestApps(t *testing.T) {
	part := func(n int, share job.RankNeeds, hosts ...string) job.App {
		return job.App{N: n, RankNeeds: share, Hosts: hosts}
	}
	one, two, fast := job.RankNeeds{}, job.RankNeeds{CPUsPerRank: 2}, job.RankNeeds{Features: []string{"ib"}}
	loop, over := job.Placement{RoundRobin: true}, job.Placement{Overbook: true}
	both := job.Placement{RoundRobin: true, Overbook: true}
	tests := []struct {
		name, cluster string
		placing       job.Placement
		apps          []job.App
		want          string
	}{
		{"the walk goes on", "a:3 b:3", job.Placement{}, []job.App{part(2, one), part(2, one)}, "a a a b"},
		{"also in turns", "a:3 b:3 c:3", loop, []job.App{part(2, one), part(3, one)}, "a b c a b"},
		{"each its own width", "a:4 b:4", job.Placement{}, []job.App{part(1, one), part(2, two)}, "a a b"},
		{"what wide ones leave is taken at last", "a:3 b:3", job.Placement{}, []job.App{part(2, two), part(2, one)}, "a b b a"},
		{"each its own hardware", "a:2 b:2+ib", job.Placement{}, []job.App{part(1, fast), part(2, one)}, "b b a"},
		{"each its own limit", "a:4 b:4", job.Placement{}, []job.App{part(2, job.RankNeeds{PerNode: 1}), part(4, one)}, "a b b b b a"},
		{"one that does not fit", "a:2 b:2", job.Placement{}, []job.App{part(2, one), part(3, one)}, "error not-enough-cpus"},
		{"one without a node", "a:2 b:2", job.Placement{}, []job.App{part(1, one), part(1, job.RankNeeds{CPUsPerRank: 3})}, "error no-candidates"},
		{"overbooked, evenly over all parts", "a:2 b:2", over, []job.App{part(3, one), part(3, one)}, "a a b b b a"},
		{"overbooked, one after it is full", "a:1 b:1", over, []job.App{part(2, one), part(2, one), part(1, one)}, "a b b a a"},
		{"overbooked where it is confined to", "a:2 b:2", over, []job.App{part(4, one, "b"), part(4, one)}, "b b b b a a a a"},
		{"overbooked in turns", "a:1 b:1", both, []job.App{part(1, one), part(3, one)}, "a b a b"},
	}
	for _, test := range tests {
		text := strings.ReplaceAll(test.cluster, "+ib", "")
		req, snap := requestFor(job.Request{Apps: test.apps, Placement: test.placing}, cluster(text))
		for i, word := range strings.Fields(test.cluster) {
			if strings.HasSuffix(word, "+ib") {
				req.Nodes[i].Features = []string{"ib"}
			}
		}
		p, err := Make(req, snap)
		got := nodesByRank(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = "error " + failed.Code
		}
		if got != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
		if err == nil && !test.placing.Overbook {
			disjoint(t, test.name, p)
		}
	}
}

// disjoint checks that no CPU has two ranks.
func disjoint(t *testing.T, name string, p job.Plan) {
	t.Helper()
	for _, n := range p.Nodes {
		taken := make(map[int]int)
		for _, r := range n.Ranks {
			for _, cpu := range r.CPUs {
				if other, is := taken[cpu]; is {
					t.Errorf("%s: ranks %d and %d share CPU %d of %s", name, other, r.Rank, cpu, n.Name)
				}
				taken[cpu] = r.Rank
			}
		}
	}
}

// A node that could not be reached, or was not probed, is dropped with the reason. The job still uses the
// other nodes.
func TestUnreached(t *testing.T) {
	req, snap := requestFor(job.Request{Apps: []job.App{{N: 2}}}, cluster("a:2 b:2 c:2 d:2"))
	req.Nodes[0].NoJobs = true
	snap.Nodes = snap.Nodes[2:]
	snap.Failed = []job.Failure{{Node: "b", Err: errors.New("connection refused")}}
	p, err := Make(req, snap)
	want := "[{runjobs-off a the host does not allow jobs (runJobs = no) 0} {unreachable b connection refused 1}]"
	if got := fmt.Sprint(p.Rejected); err != nil || got != want || nodesByRank(p) != "c c" || p.Nodes[0].Node != 0 {
		t.Errorf("%s, rejected %s, %v; want c c, %s", nodesByRank(p), got, err, want)
	}
	if worthy := ProbeFilter(req); worthy(req.Nodes[0]) || !worthy(req.Nodes[1]) {
		t.Error("Worth: a node without jobs need not be looked at, others must")
	}
}

// With more written slots than CPUs nothing is refused, and ranks share the CPUs in turn.
func TestSlotsBeyondCPUs(t *testing.T) {
	p, err := Make(requestFor(job.Request{Apps: []job.App{{N: 5}}}, cluster("a:2/5")))
	if err != nil || p.Overbooked {
		t.Fatalf("overbooked %v, %v", p.Overbooked, err)
	}
	var cpus []int
	for _, r := range p.Nodes[0].Ranks {
		cpus = append(cpus, r.CPUs...)
	}
	if fmt.Sprint(cpus) != "[0 1 0 1 0]" {
		t.Errorf("CPUs %v", cpus)
	}
}

// The note about shared CPUs says which CPUs are shared, and with which jobs.
func TestSharedCPUsNoteWithOtherJobs(t *testing.T) {
	for _, test := range []struct {
		ranks int
		busy  []int
		want  string
	}{
		{3, nil, "3 ranks share 2 CPUs. To hide this message, use --oversubscribe"},
		{3, []int{0}, "3 ranks share 1 of 2 CPUs; other jobs use the rest"},
		{1, []int{0, 1}, "1 rank shares 2 CPUs with other jobs; no CPU is free"},
		{1, []int{0}, ""},
	} {
		snap := cluster("a:2")
		snap.Nodes[0].BusyCPUs, snap.Nodes[0].Ranks, snap.Nodes[0].BoundRanks = test.busy, len(test.busy), len(test.busy)
		p, err := Make(requestFor(job.Request{Apps: []job.App{{N: test.ranks}}, LocalOnly: true}, snap))
		got := ""
		if len(p.Notes) > 0 {
			got = p.Notes[0].Text
		}
		if err != nil || got != test.want {
			t.Errorf("%d ranks, busy %v: %q, %v; want %q", test.ranks, test.busy, got, err, test.want)
		}
	}
}

// If other jobs use the CPUs, the remedies do not name options about the job's own sharing.
func TestRefusalWithOtherJobs(t *testing.T) {
	snap := cluster("a:2")
	snap.Nodes[0].BusyCPUs, snap.Nodes[0].Ranks, snap.Nodes[0].BoundRanks = []int{0}, 1, 1
	_, err := Make(requestFor(job.Request{Apps: []job.App{{N: 2}}}, snap))
	var failed *Error
	if want := "start fewer ranks, or add hosts; or use --wait to wait for other jobs to end"; !errors.As(err, &failed) || failed.Remedy != want {
		t.Errorf("%v, %q; want %q", err, failed.Remedy, want)
	}
}

// A local job is never refused for CPUs, however many threads each rank may have.
func TestLocalOnlyWithThreads(t *testing.T) {
	app := job.App{N: 3, RankNeeds: job.RankNeeds{CPUsPerRank: 8, CPUsPerRankOrigin: "OMP_NUM_THREADS"}}
	p, err := Make(requestFor(job.Request{Apps: []job.App{app}, LocalOnly: true}, cluster("a:2")))
	if err != nil || nodesByRank(p) != "a a a" || fmt.Sprint(p.Nodes[0].Ranks[2].CPUs) != "[0 1]" {
		t.Errorf("%s, %v", nodesByRank(p), err)
	}
}
