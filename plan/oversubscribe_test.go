package plan

import (
	"errors"
	"strings"
	"testing"

	"remshell/gpu"
	"remshell/idset"
	"remshell/job"
	"remshell/pin"
)

// Without -n each host that the user named gets ranks, or the job is refused, also if a host is busy.
func TestNamedHostsAllRun(t *testing.T) {
	refusal := "without -n, each host must get a rank, but there is no room on b now"
	for name, test := range map[string]struct {
		app    job.App
		change func(*job.Request)
		want   string
	}{
		"no -n":           {job.App{}, func(*job.Request) {}, refusal},
		"-ppn 1":          {job.App{RankNeeds: job.RankNeeds{PerNode: 1}}, func(*job.Request) {}, refusal},
		"-n 2":            {job.App{N: 2}, func(*job.Request) {}, "a0 a1"},
		"candidates":      {job.App{}, func(r *job.Request) { r.AllHosts = false }, "a0 a1"},
		"skip":            {job.App{}, func(r *job.Request) { r.SkipUnreachable = true }, "a0 a1"},
		"waits":           {job.App{}, func(r *job.Request) { r.Wait = true }, refusal},
		"--oversubscribe": {job.App{RankNeeds: job.RankNeeds{PerNode: 1}}, func(r *job.Request) { r.Oversubscribe = true }, "a0 b0"},
	} {
		req, snap := requestFor(job.Request{Apps: []job.App{test.app}, AllHosts: true}, cluster("a:2 b:2"))
		test.change(&req)
		snap.Nodes[1].Occupancy = job.Occupancy{Ranks: 2, BoundRanks: 2, BusyCPUs: []int{0, 1}, SharedCPUs: []int{0, 1}}
		p, err := Make(req, snap)
		got := placedCPUs(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = failed.Text
			if failed.Permanent {
				t.Errorf("%s: refused for ever: %v", name, err)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// With --oversubscribe ranks use free CPUs first, then CPUs of jobs that share too, and never CPUs of a
// job that does not share. Such ranks need no idle node and exclude no other job.
func TestOversubscribe(t *testing.T) {
	for name, test := range map[string]struct {
		nodes  string
		alone  []int // CPUs of the first node used by a job that does not share
		shared []int // CPUs of the first node used by a job that shares
		ranks  int
		want   string
	}{
		"free CPUs are enough":      {"a:3", []int{0}, []int{1}, 1, "a2"},
		"free CPUs first":           {"a:3", nil, []int{0}, 3, "a1 a2 a0"},
		"only those of sharing":     {"a:3", []int{0}, []int{1, 2}, 2, "a1 a2"},
		"never the others":          {"a:2", []int{0}, []int{1}, 3, "a1 a1 a1"},
		"no free CPU":               {"a:2", nil, []int{0, 1}, 3, "a0 a1 a0"},
		"nothing is shared":         {"a:2", []int{0, 1}, nil, 1, "no host can take this job now"},
		"nothing is shared on one":  {"a:2 b:2", []int{0, 1}, nil, 3, "b0 b1 b0"},
		"more ranks than CPUs":      {"a:2", nil, nil, 3, "a0 a1 a0"},
		"another node's free CPUs":  {"a:2 b:2", nil, []int{0, 1}, 2, "b0 b1"},
		"evenly over all the nodes": {"a:2 b:2", nil, []int{0, 1}, 4, "a0 a1 b0 b1"},
	} {
		req, snap := requestFor(job.Request{Apps: []job.App{{N: test.ranks}}, Placement: job.Placement{Oversubscribe: true}}, cluster(test.nodes))
		held0 := idset.New(append(append([]int(nil), test.alone...), test.shared...)...)
		snap.Nodes[0].Occupancy = job.Occupancy{Ranks: len(held0), BoundRanks: len(held0), BusyCPUs: held0, SharedCPUs: test.shared}
		p, err := Make(req, snap)
		got := placedCPUs(p)
		if err != nil {
			got = err.Error()
		}
		if got != test.want || p.Exclusive {
			t.Errorf("%s: got %q, exclusive %v, want %q", name, got, p.Exclusive, test.want)
		}
	}
}

// Without -n only the user's request leaves a named host out. If a policy closes a named host, or it lacks
// what ranks need, the job is refused.
func TestNamedHostsAreLeftOutOnRequestOnly(t *testing.T) {
	none := 0
	for name, test := range map[string]struct {
		change func(*job.Request, *job.Node)
		runs   bool
	}{
		"--exclude":                   {func(_ *job.Request, n *job.Node) { n.ExcludedWhy = "excluded" }, true},
		"--nodetype":                  {func(r *job.Request, _ *job.Node) { r.Apps[0].Features = []string{"fast"} }, true},
		"--nodetype, found by probes": {func(r *job.Request, _ *job.Node) { r.Apps[0].ProbedFeatures = []string{"nvidia"} }, true},
		"administrator":               {func(_ *job.Request, n *job.Node) { n.NodePolicy.ClosedWhy = "closed" }, false},
		"runJobs":                     {func(_ *job.Request, n *job.Node) { n.NoJobs = true }, false},
		"users":                       {func(_ *job.Request, n *job.Node) { n.Users = []int{7} }, false},
		"groups":                      {func(_ *job.Request, n *job.Node) { n.Groups = []int{7} }, false},
		"class":                       {func(_ *job.Request, n *job.Node) { n.Classes = []string{"night"} }, false},
		"exclusive":                   {func(r *job.Request, n *job.Node) { r.Exclusive, n.NoExclusive = true, true }, false},
		"--arch":                      {func(r *job.Request, n *job.Node) { r.Apps[0].Arch, n.Arch = "arm64", "amd64" }, false},
		"layout":                      {func(r *job.Request, n *job.Node) { r.Layout.Mem.Text, n.NoMemBind = "local", true }, false},
		"GPUs":                        {func(r *job.Request, _ *job.Node) { r.Apps[0].GPUs = 1 }, false},
		"memory":                      {func(r *job.Request, n *job.Node) { r.Memory, n.Memory.Available = 8, 4 }, false},
		"maxproc":                     {func(_ *job.Request, n *job.Node) { n.MaxProcs = &none }, false},
	} {
		snap := cluster("a:2 b:2")
		snap.Nodes[0].Features, snap.Nodes[0].GPUs = []string{"fast"}, []gpu.GPU{{Vendor: gpu.NVIDIA, Address: "1"}, {Vendor: gpu.NVIDIA, Address: "2"}}
		req := job.Request{User: job.User{UID: 1}, Apps: []job.App{{}}, AllHosts: true}
		test.change(&req, &snap.Nodes[1])
		req, snap = requestFor(req, snap)
		p, err := Make(req, snap)
		var failed *Error
		switch errors.As(err, &failed); {
		case test.runs && (err != nil || placedCPUs(p) != "a0 a1"):
			t.Errorf("%s: %v: %s", name, err, placedCPUs(p))
		case !test.runs && (failed == nil || !strings.Contains(failed.Text, ", but there is no room on b") || len(failed.Rejected) != 1):
			t.Errorf("%s: runs on %q: %+v", name, placedCPUs(p), failed)
		}
	}
}

// Without -n the written slots of named hosts are the number of ranks, even if another job uses some of
// the CPUs.
func TestWrittenSlotsAllRun(t *testing.T) {
	for name, test := range map[string]struct {
		nodes  string
		change func(*job.Request)
		want   string
	}{
		"busy":            {"a:2/2 b:2/2", func(*job.Request) {}, "4 ranks do not fit: there are free slots for only 3 ranks on 2 nodes (a,b)"},
		"--oversubscribe": {"a:2/2 b:2/2", func(r *job.Request) { r.Oversubscribe = true }, "a1 a0 b0 b1"},
		"--skip":          {"a:2/2 b:2/2", func(r *job.Request) { r.SkipUnreachable = true }, "a1 b0 b1"},
		"candidates":      {"a:2/2 b:2/2", func(r *job.Request) { r.AllHosts = false }, "a1 b0 b1"},
		"no slots":        {"a:2 b:2", func(*job.Request) {}, "a1 b0 b1"},
		"max_slots":       {"a:2/2 b:2/2", func(r *job.Request) { r.Nodes[1].MaxSlots = 1 }, "3 ranks do not fit: there are free slots for only 2 ranks on 2 nodes (a,b), where max_slots of the host file allows 1 on b"},
		"this machine":    {"a:2/4", func(r *job.Request) { r.AllHosts, r.LocalOnly = false, true }, "a1 a1 a1 a1"},
		"--wait here":     {"a:2/2", func(r *job.Request) { r.AllHosts, r.LocalOnly, r.Wait = false, true, true }, "2 ranks do not fit: there are free slots for only 1 rank on 1 node (a)"},
	} {
		snap := cluster(test.nodes)
		snap.Nodes[0].Occupancy = job.Occupancy{Ranks: 1, BoundRanks: 1, BusyCPUs: []int{0}, SharedCPUs: []int{0}}
		req, snap := requestFor(job.Request{Apps: []job.App{{}}, AllHosts: true}, snap)
		test.change(&req)
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

// The error never advises --oversubscribe where it was given or does not help.
func TestAdviceToShareHelps(t *testing.T) {
	full := func(req job.Request, shared ...int) *Error {
		snap := cluster("a:2 b:2")
		snap.Nodes[1].Occupancy = job.Occupancy{Ranks: 2, BoundRanks: 2, BusyCPUs: []int{0, 1}, SharedCPUs: shared}
		req.Apps, req.AllHosts = []job.App{{}}, true
		req, snap = requestFor(req, snap)
		_, err := Make(req, snap)
		var failed *Error
		errors.As(err, &failed)
		return failed
	}
	share := job.Request{Placement: job.Placement{Oversubscribe: true}}
	if failed := full(job.Request{}, 0, 1); failed == nil || !strings.Contains(failed.Remedy, "--oversubscribe") {
		t.Errorf("it helps: %+v", failed)
	}
	for name, failed := range map[string]*Error{"it does not help": full(job.Request{}), "it was given": full(share)} {
		if failed == nil || strings.Contains(failed.Remedy, "--oversubscribe") {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	share.Apps, share.Layout.Bind = []job.App{{N: 2}}, pin.Binding{Text: "user:0", Sets: [][]int{{0}}}
	req, snap := requestFor(share, cluster("a:2"))
	if p, err := Make(req, snap); err != nil || placedCPUs(p) != "a0 a0" {
		t.Errorf("--bind-to user:0 --oversubscribe: %v, %s", err, placedCPUs(p))
	}
}

// A spawn of a job with --oversubscribe uses free CPUs on all hosts before it shares any.
func TestSpawnsTakeFreeCPUsFirst(t *testing.T) {
	req, snap := requestFor(job.Request{Apps: []job.App{{N: 2}}, Placement: job.Placement{Oversubscribe: true, FreeCPUsFirst: true}}, cluster("a:1"))
	snap.Nodes[0].Occupancy = job.Occupancy{Ranks: 1, BoundRanks: 1, OwnRanks: 1, BusyCPUs: []int{0}, SharedCPUs: []int{0}}
	if p, err := Make(req, snap); err == nil {
		t.Errorf("at first: %s", placedCPUs(p))
	}
	req.FreeCPUsFirst = false
	if p, err := Make(req, snap); err != nil || placedCPUs(p) != "a0 a0" {
		t.Errorf("at last: %v, %s", err, placedCPUs(p))
	}
}
