package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/job"
)

// Spawned ranks share the CPUs of their own job if no others are free. They never share those of another
// job.
func TestSpawnsShareOwnCPUs(t *testing.T) {
	for name, test := range map[string]struct {
		nodes  string
		others []int // CPUs of the first node used by another job
		ranks  int
		forbid bool
		closed bool // overbook = "no" on the first node
		want   string
	}{
		"own CPU":              {"a:1", nil, 2, false, false, "a0 a0"},
		"another's":            {"a:2", []int{1}, 3, false, false, "a0 a0 a0"},
		"free ones first":      {"a:3/1", nil, 3, false, false, "a1 a2 a0"},
		"all nodes":            {"a:1 b:1", nil, 4, false, false, "a0 a0 b0 b0"},
		"--nooversubscribe":    {"a:1", nil, 1, true, false, "no host can take this job now"},
		"the administrator's":  {"a:1", nil, 1, false, true, "no host can take this job now"},
		"nothing of ours left": {"b:1 a:1", []int{0}, 1, false, false, "a0"},
	} {
		snap := cluster(test.nodes)
		for i := range snap.Nodes {
			n := &snap.Nodes[i]
			n.NoOverbook = test.closed && i == 0
			if i == 0 {
				n.Ranks, n.BoundRanks, n.BusyCPUs = len(test.others), len(test.others), test.others
			}
			if n.Name == "a" {
				n.Occupancy = n.Occupancy.Union(job.Occupancy{Ranks: 1, BoundRanks: 1, OwnRanks: 1, BusyCPUs: []int{0}})
				n.ShareableCPUs = []int{0}
			}
		}
		req, snap := requestFor(job.Request{Apps: []job.App{{N: test.ranks}}, Placement: job.Placement{ShareOwnCPUs: true, NoOversubscribe: test.forbid}}, snap)
		p, err := Make(req, snap)
		got := placedCPUs(p)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// placedCPUs formats the node and the CPU of each rank: "a0 b1".
func placedCPUs(p job.Plan) string {
	seats := make([]string, p.Size)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			seats[r.Rank] = n.Name + strings.Trim(fmt.Sprint(r.ClaimedCPUs), "[]")
		}
	}
	return strings.Join(seats, " ")
}

// Sharing CPUs does not lift a limit, so the error does not advise it.
func TestLimitsAreNotSharedAway(t *testing.T) {
	most := 2
	snap := cluster("a:4")
	snap.Nodes[0].MaxProcs = &most
	req, snap := requestFor(job.Request{Apps: []job.App{{N: 3}}}, snap)
	_, err := Make(req, snap)
	failed, _ := err.(*Error)
	if want := "start fewer ranks, add hosts, or raise this limit"; failed == nil || failed.Remedy != want {
		t.Errorf("%v: %+v", err, failed)
	}
}

// Rules of the node's own administrator are only in the snapshot. They apply together with those of the
// request.
func TestANodesOwnRules(t *testing.T) {
	plan := func(n int, rule func(*job.NodePolicy)) string {
		req, snap := requestFor(job.Request{Apps: []job.App{{N: n}}}, cluster("a:4 b:4"))
		snap.Nodes = slices.Clone(snap.Nodes)
		rule(&snap.Nodes[0].NodePolicy)
		p, err := Make(req, snap)
		if err != nil {
			t.Fatal(err)
		}
		return nodesByRank(p)
	}
	one := 1
	if got := plan(2, func(p *job.NodePolicy) { p.ClosedWhy = "runs no jobs" }); got != "b b" {
		t.Errorf("a node that is closed: %s", got)
	}
	if got := plan(3, func(p *job.NodePolicy) { p.MaxProcs = &one }); got != "a b b" && got != "b b b" {
		t.Errorf("a node that lets one process run: %s", got)
	}
}

// A host list may name a node by its second name alone (HOST-8).
func TestEntriesOfAnotherName(t *testing.T) {
	req, snap := requestFor(job.Request{Apps: []job.App{{N: 1}}, HostEntries: []int{1}}, cluster("a:2=x b:2=x"))
	p, err := Make(req, snap)
	if err != nil || nodesByRank(p) != "a" {
		t.Errorf("%v: %s", err, nodesByRank(p))
	}
}
