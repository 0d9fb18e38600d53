package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// If the user gives no number of ranks, each host gets as many as the batch system granted tasks there.
// Ranks beyond its CPUs are overbooked, with a note (RM-6, RM-20).
func TestGranted(t *testing.T) {
	for _, test := range []struct {
		name, cluster string
		tasks         []int
		ranks         int
		want          string // ranks of each node, and the notes
	}{
		{"as they were granted", "a:4/4 b:4/4", []int{1, 2}, 0, "a:1 b:2"},
		{"as many as are wanted", "a:4/4 b:4/4", []int{1, 2}, 6, "a:4 b:2"},
		{"none on one of them", "a:4/4 b:4/4", []int{0, 2}, 0, "b:2"},
		{"not counted", "a:4/4 b:4/4", []int{0, 0}, 0, "a:4 b:4"},
		{"more than there are", "a:2/4 b:4/4", []int{4, 1}, 0, "a:4 b:1; warning: a: the batch system granted 4 slots, but ranks can use only 2 CPUs"},
	} {
		snap := cluster(test.cluster)
		for i := range snap.Nodes {
			snap.Nodes[i].Tasks = test.tasks[i]
		}
		p, err := Make(requestFor(job.Request{Apps: []job.App{{N: test.ranks}}, RM: &job.RM{Name: "slurm", Job: "7"}}, snap))
		got := ""
		for i, n := range p.Nodes {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprintf("%s:%d", n.Name, len(n.Ranks))
		}
		for _, note := range p.Notes {
			got += "; " + note.Text
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// CPUs claimed by jobs outside this batch job are avoided while enough others remain. Otherwise ranks
// share them and are not bound. Such claims never cause a refusal (RM-20).
func TestGrantedAndClaimed(t *testing.T) {
	const note = "a: job J of alice uses 2 of the 4 CPUs that the batch system granted to this job; ranks on this host are not bound"
	for _, test := range []struct {
		name, cluster string
		beyond, same  []int
		ranks         int
		layout        string
		want, text    string
	}{
		{"enough are left", "a:4/4", []int{0, 1}, nil, 2, "", "2 3", ""},
		{"not enough are left", "a:4/4", []int{0, 1}, nil, 4, "", "- - - -", note},
		{"all but one", "a:4/4", []int{0, 1}, nil, 3, "", "- - -", note},
		{"all of them", "a:4/4", []int{0, 1, 2, 3}, nil, 4, "", "- - - -", "a: job J of alice uses 4 of the 4 CPUs that the batch system granted to this job; ranks on this host are not bound"},
		{"beside a launch of the same job", "a:4/4", []int{0}, []int{1}, 2, "", "2 3", ""},
		{"a launch of the same job has all", "a:4/4", nil, []int{0, 1, 2, 3}, 1, "", CodeNoNodes, ""},
		{"the node has more than was granted", "a:4/2", []int{0, 1}, nil, 2, "", "2 3", ""},
		{"by a layout", "a:4/2", []int{0, 1}, nil, 2, "core", "2 3", ""},
		{"by a layout, not enough", "a:4/4", []int{0, 1}, nil, 4, "core", "- - - -", note},
	} {
		snap := cluster(test.cluster)
		snap.Nodes[0].OutsideOccupancy = job.Occupancy{BusyCPUs: test.beyond, Ranks: len(test.beyond), BoundRanks: len(test.beyond), TopUser: "alice", TopJob: "J"}
		snap.Nodes[0].BusyCPUs, snap.Nodes[0].Ranks, snap.Nodes[0].BoundRanks = test.same, len(test.same), len(test.same)
		req := job.Request{Apps: []job.App{{N: test.ranks}}, RM: &job.RM{Name: "slurm", Job: "7"}}
		if test.layout != "" {
			if err := req.Layout.Map.UnmarshalText([]byte(test.layout)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := Make(requestFor(req, snap))
		got, text := cpusOf(p), ""
		var failed *Error
		if errors.As(err, &failed) {
			got = failed.Code
		}
		for _, note := range p.Notes {
			text += note.Text
		}
		if got != test.want || text != test.text {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, got, text, test.want, test.text)
		}
	}
}

// If a batch system grants CPUs by number, ranks that are not bound stay on these (RM-6).
func TestUnboundRanksStayOnGrantedCPUs(t *testing.T) {
	for _, test := range []struct {
		name   string
		fenced bool
		req    job.Request
		want   string
	}{
		{"bound", true, job.Request{Apps: []job.App{{N: 2}}}, "[0] [1]"},
		{"not bound", true, job.Request{Apps: []job.App{{N: 2}}, Placement: job.Placement{NoPin: true}}, "[0 1] [0 1]"},
		{"no list", false, job.Request{Apps: []job.App{{N: 2}}, Placement: job.Placement{NoPin: true}}, "[] []"},
	} {
		snap := cluster("a:4/4")
		left, err := snap.Nodes[0].Topology.RestrictTo(pin.CPUGrant{List: "0-1", From: "L"})
		if err != nil {
			t.Fatal(err)
		}
		snap.Nodes[0].Topology, snap.Nodes[0].Confined = left, test.fenced
		p, err := Make(requestFor(test.req, snap))
		if err != nil || len(p.Nodes) != 1 {
			t.Errorf("%s: %v, %v", test.name, p.Nodes, err)
			continue
		}
		got := ""
		for _, r := range p.Nodes[0].Ranks {
			got += fmt.Sprint(r.CPUs) + " "
		}
		if strings.TrimSpace(got) != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
	}
}
