package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// A gang takes free CPUs, then CPUs with few gangs, with the first party of 0, 2, 1, 3 that is free there. It never takes CPUs
// of a job that is no gang.
func TestGangs(t *testing.T) {
	terms := job.GangTerms{Parties: 4, Slice: 10 * time.Second}
	gang := func(party int, cpus ...int) job.GangCPUs {
		return job.GangCPUs{GangJob: job.GangJob{Job: "j", Party: party}, CPUs: cpus}
	}
	for _, test := range []struct {
		name  string
		busy  []int
		gangs []job.GangCPUs
		n     int
		edit  func(*job.Request, *job.Node)
		want  string // party, competitors, claimed CPUs of each rank; or the error
	}{
		{"idle", nil, nil, 2, nil, "0 [] [0][1]"},
		{"free CPUs first", []int{0}, []job.GangCPUs{gang(0, 0)}, 1, nil, "0 [] [1]"},
		{"with one gang", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1)}, 2, nil, "2 [{j 0}] [0][1]"},
		{"with one gang on one CPU", []int{0}, []job.GangCPUs{gang(0, 0)}, 2, nil, "2 [{j 0}] [1][0]"},
		{"the CPU with fewer gangs", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1), gang(2, 0)}, 1, nil, "2 [{j 0}] [1]"},
		{"beside two", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1), gang(2, 0, 1)}, 1, nil, "1 [{j 0} {j 2}] [0]"},
		{"beside three", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1), gang(1, 0), gang(2, 0, 1)}, 2, nil, "3 [{j 0} {j 1} {j 2}] [1][0]"},
		{"no party is free", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1), gang(1, 0, 1), gang(2, 0, 1), gang(3, 0, 1)}, 1, nil, "all 2 CPUs are in use; each has the maximum of 4 gangs"},
		{"no party is free on one CPU", []int{0, 1}, []job.GangCPUs{gang(0, 1), gang(1, 1), gang(2, 1), gang(3, 1)}, 1, nil, "all 2 CPUs are in use; 1 of them has the maximum of 4 gangs"},
		{"no party is free, and one user has all CPUs", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1), gang(1, 0, 1), gang(2, 0, 1), gang(3, 0, 1)}, 1, func(_ *job.Request, n *job.Node) { n.TopUser = "ann" },
			"a: jobs of ann have used all 2 CPUs since 00:00:00; each has the maximum of 4 gangs"},
		{"a job that is no gang", []int{0, 1}, []job.GangCPUs{gang(0, 0)}, 2, nil, "2 ranks do not fit"},
		{"unbound ranks claim all CPUs", nil, nil, 1, func(r *job.Request, _ *job.Node) { r.NoPin = true }, "0 [] [0 1]"},
		{"unbound ranks share all CPUs", []int{0}, []job.GangCPUs{gang(0, 0)}, 1, func(r *job.Request, _ *job.Node) { r.NoPin = true }, "2 [{j 0}] [0 1]"},
		{"unbound ranks beside another job", []int{0}, nil, 1, func(r *job.Request, _ *job.Node) { r.NoPin = true }, "all 2 CPUs are in use"},
		{"a spawn has its job's party", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1)}, 1, func(r *job.Request, _ *job.Node) { r.JobGang = &job.Gang{Party: 3, GangTerms: terms} }, "3 [{j 0}] [0]"},
		{"memory of others", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1)}, 1, func(_ *job.Request, n *job.Node) {
			n.Memory, n.GangMemory = job.Memory{Total: 100 << 20, Available: 90 << 20}, 70<<20
		}, "this gang needs 25 MB of memory, but the other gangs leave only 20 MB"},
		{"memory in use", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1)}, 2, func(r *job.Request, n *job.Node) {
			r.Memory, n.Memory = 10<<20, job.Memory{Total: 100 << 20, Available: 25 << 20}
		}, "the memory that other gangs leave for --mem-per-rank allows 1"},
		{"memory that fits", []int{0, 1}, []job.GangCPUs{gang(0, 0, 1)}, 2, func(r *job.Request, n *job.Node) {
			r.Memory, n.Memory = 10<<20, job.Memory{Total: 100 << 20, Available: 40 << 20}
		}, "2 [{j 0}] [0][1]"},
	} {
		req, snap := requestFor(job.Request{Apps: []job.App{{N: test.n}}, Placement: job.Placement{Gang: true}}, cluster("a:2"))
		n := &snap.Nodes[0]
		n.Gang, n.Occupancy = terms, job.Occupancy{Ranks: len(test.busy), BoundRanks: len(test.busy), BusyCPUs: test.busy, GangCPUs: test.gangs}
		if test.edit != nil {
			test.edit(&req, n)
		}
		got := ""
		p, err := Make(req, snap)
		if err != nil {
			got = err.Error() + " " + strings.Join(err.(*Error).Reasons(), " ")
		} else {
			got = fmt.Sprintf("%d %v ", p.Gang.Party, p.GangCompetitors)
			for _, r := range p.Nodes[0].Ranks {
				got += fmt.Sprint(r.ClaimedCPUs)
			}
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// If the CPUs have the maximum number of gangs, the hint says what helps.
func TestHintIfNoGangFits(t *testing.T) {
	req, snap := requestFor(job.Request{Apps: []job.App{{N: 1}}, Placement: job.Placement{Gang: true}}, cluster("a:1 b:1"))
	for i := range snap.Nodes {
		snap.Nodes[i].Gang = job.GangTerms{Parties: 2, Slice: 10 * time.Second}
		snap.Nodes[i].Occupancy = job.Occupancy{Ranks: 2, BoundRanks: 2, BusyCPUs: []int{0}, GangCPUs: []job.GangCPUs{{GangJob: job.GangJob{Job: "j"}, CPUs: []int{0}}, {GangJob: job.GangJob{Job: "k", Party: 1}, CPUs: []int{0}}}}
	}
	_, err := Make(req, snap)
	failed, _ := err.(*Error)
	const hint = "use other hosts, or end one of these gangs; to list them: mpiexec --ps a b; or use --wait to wait for other jobs to end"
	if failed == nil || failed.Hint() != hint || !slices.Equal(failed.Reasons(), []string{"a,b: the only CPU is in use; it has the maximum of 2 gangs"}) {
		t.Errorf("%v, %q, hint %q", err, failed.Reasons(), failed.Hint())
	}
}

// Hosts of one gang have the same parties and slices.
func TestAGangNeedsEqualTerms(t *testing.T) {
	req, snap := requestFor(job.Request{Apps: []job.App{{N: 2}}, Placement: job.Placement{Gang: true}}, cluster("a:1 b:1"))
	snap.Nodes[0].Gang, snap.Nodes[1].Gang = job.DefaultGangTerms, job.GangTerms{Parties: 2, Slice: 10 * time.Second}
	_, err := Make(req, snap)
	if want := "--gang: the hosts have different [gang] settings: a has parties = 4 and slice = 10s, but b has parties = 2 and slice = 10s"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	snap.Nodes[1].Gang = job.DefaultGangTerms
	if p, err := Make(req, snap); err != nil || *p.Gang != (job.Gang{GangTerms: job.DefaultGangTerms}) {
		t.Errorf("%+v, %v", p.Gang, err)
	}
}
