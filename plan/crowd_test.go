package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/job"
)

// What a job spawns shares the CPUs that the job itself holds, when no others are free, and
// never those of another job.
func TestCrowd(t *testing.T) {
	for name, test := range map[string]struct {
		nodes  string
		others []int // CPUs of the first node
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
				n.Procs, n.Seated, n.Busy = len(test.others), len(test.others), test.others
			}
			if n.Name == "a" {
				n.Use = n.Use.And(job.Use{Procs: 1, Seated: 1, Own: 1, Busy: []int{0}})
				n.Mine = []int{0}
			}
		}
		req, snap := on(job.Request{Apps: []job.App{{N: test.ranks}}, Placing: job.Placing{Crowd: true, Forbid: test.forbid}}, snap)
		p, err := Make(req, snap)
		got := held(p)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// held writes the node and the CPU of each rank: "a0 b1".
func held(p job.Plan) string {
	seats := make([]string, p.Size)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			seats[r.Rank] = n.Name + strings.Trim(fmt.Sprint(r.Held), "[]")
		}
	}
	return strings.Join(seats, " ")
}

// Sharing CPUs is no way round a limit, so nobody is told to.
func TestLimitsAreNotSharedAway(t *testing.T) {
	most := 2
	snap := cluster("a:4")
	snap.Nodes[0].MaxProcs = &most
	req, snap := on(job.Request{Apps: []job.App{{N: 3}}}, snap)
	_, err := Make(req, snap)
	failed, _ := err.(*Error)
	if want := "start fewer ranks, name more hosts, or raise the limit"; failed == nil || failed.Way != want {
		t.Errorf("%v: %+v", err, failed)
	}
}

// What a node's own administrator says is in the snapshot alone, and holds beside what the request says.
func TestANodesOwnRules(t *testing.T) {
	plan := func(n int, rule func(*job.Policy)) string {
		req, snap := on(job.Request{Apps: []job.App{{N: n}}}, cluster("a:4 b:4"))
		snap.Nodes = slices.Clone(snap.Nodes)
		rule(&snap.Nodes[0].Policy)
		p, err := Make(req, snap)
		if err != nil {
			t.Fatal(err)
		}
		return shown(p)
	}
	one := 1
	if got := plan(2, func(p *job.Policy) { p.Closed = "runs no jobs" }); got != "b b" {
		t.Errorf("a node that is closed: %s", got)
	}
	if got := plan(3, func(p *job.Policy) { p.MaxProcs = &one }); got != "a b b" && got != "b b b" {
		t.Errorf("a node that lets one process run: %s", got)
	}
}

// A node may be named by its second name alone (HOST-8).
func TestTurnsOfAnotherName(t *testing.T) {
	req, snap := on(job.Request{Apps: []job.App{{N: 1}}, Turns: []int{1}}, cluster("a:2=x b:2=x"))
	p, err := Make(req, snap)
	if err != nil || shown(p) != "a" {
		t.Errorf("%v: %s", err, shown(p))
	}
}
