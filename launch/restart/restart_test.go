package restart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/pin"
	"remshell/plan"
)

// attemptsOf returns attempts that ran that many seconds each and ended in the same way.
func attemptsOf(kind job.EndKind, code int, seconds ...int) (attempts []job.Attempt) {
	began := time.Unix(1000, 0)
	for i, s := range seconds {
		attempts = append(attempts, job.Attempt{Number: i, Began: began, Ended: began.Add(time.Duration(s) * time.Second), Kind: kind, Exit: code})
	}
	return attempts
}

// Which ends are restarted, how often, and after which pause (SV-1, SV-6).
func TestDecide(t *testing.T) {
	node := []job.EndKind{job.EndByNodeLoss}
	always := job.RestartPolicy{MaxRestarts: job.UnlimitedRestarts, On: job.EndKinds}
	for _, test := range []struct {
		policy   job.RestartPolicy
		attempts []job.Attempt
		luck     float64
		want     string
	}{
		{job.RestartPolicy{}, attemptsOf(job.EndByNodeLoss, 125, 60), 0, "over"},
		{job.RestartPolicy{MaxRestarts: 1, On: node}, attemptsOf(job.EndByNodeLoss, 125, 60), 0, "after 5s"},
		{job.RestartPolicy{MaxRestarts: 1, On: node}, attemptsOf(job.EndByNodeLoss, 125, 60), 1, "after 6s"},
		{job.RestartPolicy{MaxRestarts: 1, On: node, Delay: time.Minute}, attemptsOf(job.EndByNodeLoss, 125, 60), 0, "after 1m0s"},
		{job.RestartPolicy{MaxRestarts: 1, On: node}, attemptsOf(job.EndByNodeLoss, 125, 60, 60), 0, "over: --restart 1 allows no more restarts"},
		{job.RestartPolicy{MaxRestarts: 2, On: node}, attemptsOf(job.EndByExitCode, 3, 60), 0, "over"},
		{job.RestartPolicy{MaxRestarts: 2, On: node}, attemptsOf("", 130, 60), 0, "over"},
		{job.RestartPolicy{MaxRestarts: 2, On: []job.EndKind{job.EndByExitCode}}, attemptsOf(job.EndByExitCode, 3, 60), 0, "after 5s"},
		{job.RestartPolicy{MaxRestarts: 2, On: []job.EndKind{job.EndByExitCode}, Codes: []int{85}}, attemptsOf(job.EndByExitCode, 85, 60), 0, "after 5s"},
		{job.RestartPolicy{MaxRestarts: 2, On: []job.EndKind{job.EndByExitCode}, Codes: []int{85}}, attemptsOf(job.EndByExitCode, 3, 60), 0, "over"},
		{job.RestartPolicy{MaxRestarts: 2, On: []job.EndKind{job.EndByAbort}}, attemptsOf(job.EndByAbort, 3, 60), 0, "after 5s"},
		{always, attemptsOf("", 0, 60), 0, "over"},
		{always, attemptsOf(job.EndBySignal, 139, 2), 0, "after 5s"},
		{always, attemptsOf(job.EndBySignal, 139, 2, 2), 0, "after 10s"},
		{always, attemptsOf(job.EndBySignal, 139, 2, 2, 2), 0, "after 20s"},
		{always, attemptsOf(job.EndBySignal, 139, 2, 2, 2, 2), 0, "after 40s"},
		{always, attemptsOf(job.EndBySignal, 139, 2, 2, 2, 2, 2), 0, "over: each of the last five attempts ran for less than 10s"},
		{always, attemptsOf(job.EndBySignal, 139, 2, 2, 2, 11, 2), 0, "after 1m20s"},
		{always, attemptsOf(job.EndBySignal, 139, 20, 20, 20, 20, 20, 20, 20, 20), 0, "after 5m0s"},
		{always, attemptsOf(job.EndBySignal, 139, 20, 20, 600), 0, "after 5s"},
		{always, attemptsOf(job.EndBySignal, 139, 20, 20, 600, 20), 0, "after 10s"},
		{job.RestartPolicy{MaxRestarts: 9, On: job.EndKinds}, attemptsOf(job.EndBySignal, 139, 2, 2, 2, 2, 2, 2), 0, "after 2m40s"},
	} {
		d := Decide(test.policy, test.attempts, test.luck)
		got := strings.TrimSuffix("over: "+d.Why, ": ")
		if d.Restarts {
			got = fmt.Sprintf("after %v", d.Pause)
		}
		if got != test.want {
			t.Errorf("%+v after %d attempts by %q: %s, want %s", test.policy, len(test.attempts), test.attempts[0].Kind, got, test.want)
		}
	}
}

// cluster returns a request with nodes a to d, of four CPUs each.
func cluster(apps ...job.App) job.Request {
	req := job.Request{Job: "j", Apps: apps, Restart: job.RestartPolicy{MaxRestarts: 3, On: job.EndKinds}}
	for i, name := range []string{"a", "b", "c", "d"} {
		req.Nodes = append(req.Nodes, job.NodeDef{ID: i, Name: name, Host: name})
	}
	return req
}

// Where the next attempt runs, and with how many ranks (SV-4, SV-5), beside the examples of
// survive.md 12.
func TestNextRequest(t *testing.T) {
	lost := func(names ...string) job.Attempt { return ran(job.EndByNodeLoss, 125, names...) }
	for _, test := range []struct {
		name     string
		req      job.Request
		attempts []job.Attempt
		up       string // the nodes that are reachable
		want     string
	}{
		{"too few", with(cluster(eight...), func(r *job.RestartPolicy) { r.MinRanks = 5 }), []job.Attempt{lost("b")}, "a", plan.CodeNotEnough},
		{"all fit, though fewer would do", with(cluster(eight...), func(r *job.RestartPolicy) { r.MinRanks = 4 }), []job.Attempt{lost("b")}, "acd", "a:0-3 c:4-7"},
		{"a spare before others", cluster(eight...), []job.Attempt{withStandby(lost("b"), "d")}, "acd", "a:0-3 d:4-7"},
		{"spares in their order, before others, and all before those that are back", cluster(eight...), []job.Attempt{withStandby(lost("a", "b"), "d")}, "abcd", "d:0-3 c:4-7"},
		{"10, back at once", cluster(eight...), []job.Attempt{lost("b")}, "ab", "a:0-3 b:4-7"},
		{"10, back, and last", cluster(eight...), []job.Attempt{lost("b")}, "abd", "a:0-3 d:4-7"},
		{"10, lost twice", cluster(eight...), []job.Attempt{lost("b"), lost("b")}, "ab", plan.CodeNotEnough},
		{"it kept the first", cluster(eight...), []job.Attempt{{Kind: job.EndByNodeLoss, Nodes: []string{"d", "b"}, Size: 8, Lost: []string{"b"}}}, "abcd", "d:0-3 a:4-7"},
		{"failed to start there twice", cluster(eight...), []job.Attempt{{Kind: job.EndByStartFailure, Nodes: []string{"a", "b"}, Failed: []string{"a"}},
			{Kind: job.EndByStartFailure, Nodes: []string{"b", "a"}, Failed: []string{"a"}}}, "abcd", "b:0-3 c:4-7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := planned(NextRequest(test.req, test.attempts), test.up); got != " "+test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Standby nodes come after the nodes of a plan, each with as many CPUs as the largest part has
// (SV-7).
func TestStandbyRequest(t *testing.T) {
	six := job.App{N: 6, Argv: []string{"x"}}
	for _, test := range []struct {
		name   string
		req    job.Request
		spares int
		busy   map[string]int // CPUs in use by others
		want   string
	}{
		{"none wanted", cluster(six), 0, nil, ""},
		{"one", cluster(six), 1, nil, "c:4"},
		{"two", cluster(six), 2, nil, "c:4 d:4"},
		{"more than there are", cluster(six), 3, nil, "c:4 d:4"},
		{"one is too full", cluster(six), 2, map[string]int{"c": 1}, "d:4"},
		{"as much as the largest part", cluster(job.App{N: 2, Argv: []string{"x"}, RankNeeds: job.RankNeeds{PerNode: 1, CPUsPerRank: 2}}), 1, map[string]int{"c": 3}, "d:2"},
		{"less is enough", cluster(job.App{N: 2, Argv: []string{"x"}, RankNeeds: job.RankNeeds{PerNode: 1, CPUsPerRank: 2}}), 2, map[string]int{"c": 2}, "c:2 d:2"},
		{"ranks that share out their nodes", cluster(job.App{N: 4, Argv: []string{"x"}, RankNeeds: job.RankNeeds{PerNode: 2, AllCPUs: true}}), 1, map[string]int{"c": 1}, "c:2"},
		{"of two sections", cluster(job.App{N: 1, Argv: []string{"x"}}, job.App{N: 1, Argv: []string{"y"}, RankNeeds: job.RankNeeds{CPUsPerRank: 2}}), 1, nil, "b:3"},
		{"where each rank goes is written down", func() job.Request {
			req := cluster(job.App{N: 1, Argv: []string{"x"}})
			req.FixedPlacements = []job.FixedPlacement{{Node: 0}}
			return req
		}(), 1, nil, ""},
	} {
		req := with(test.req, func(r *job.RestartPolicy) { r.StandbyNodes = test.spares })
		snap := snapshot(req, "abcd")
		for i := range snap.Nodes {
			for cpu := range test.busy[snap.Nodes[i].Name] {
				snap.Nodes[i].BusyCPUs, snap.Nodes[i].Ranks, snap.Nodes[i].BoundRanks = append(snap.Nodes[i].BusyCPUs, cpu), cpu+1, cpu+1
			}
		}
		p, err := plan.Make(req, snap)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		got := ""
		if more, wants := StandbyRequest(req, p); wants {
			p, _ := plan.Make(more, snap)
			for _, np := range p.Nodes {
				got += fmt.Sprintf(" %s:%d", np.Name, np.CPUs())
			}
		}
		if got = strings.TrimSpace(got); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func withStandby(a job.Attempt, spares ...string) job.Attempt {
	a.StandbyNodes = spares
	return a
}

func with(req job.Request, change func(*job.RestartPolicy)) job.Request {
	change(&req.Restart)
	return req
}

// snapshot has four CPUs on each node in up, or as many as a number in up.
func snapshot(req job.Request, up string) job.Snapshot {
	cpus := 4
	if strings.HasSuffix(up, "6") {
		cpus = 6
	}
	var snap job.Snapshot
	for _, def := range req.Nodes {
		n := job.Node{NodeDef: def, Probe: job.Probe{Hostname: def.Name, Arch: "amd64", Identity: def.Name}}
		for c := range cpus {
			n.Topology.Cores = append(n.Topology.Cores, pin.Core{CPUs: []int{c}})
		}
		if !strings.Contains(up, def.Name) {
			n.Down = "no answer"
		}
		snap.Nodes = append(snap.Nodes, n)
	}
	return snap
}

// Environment and arguments of ranks (SV-10, --restart-args).
func TestEnvironmentOfAttempts(t *testing.T) {
	req := cluster(job.App{N: 1, Argv: []string{"x", "y"}})
	req.Compat, req.Restart.ExtraArgs = []string{"slurm"}, []string{"--resume"}
	first := NextRequest(req, nil)
	if want := []string{"MPIEXEC_ATTEMPT=0", "MPIEXEC_RESTARTS_LEFT=3", "SLURM_RESTART_COUNT=0"}; !slices.Equal(first.GlobalEnv, want) {
		t.Errorf("%q, want %q", first.GlobalEnv, want)
	}
	if want := []string{"x", "y"}; !slices.Equal(first.Apps[0].Argv, want) {
		t.Errorf("%q, want %q", first.Apps[0].Argv, want)
	}
	second := NextRequest(req, []job.Attempt{{Kind: job.EndByNodeLoss, Lost: []string{"b", "c"}, Size: 4}})
	want := []string{"MPIEXEC_ATTEMPT=1", "MPIEXEC_RESTARTS_LEFT=2", "SLURM_RESTART_COUNT=1",
		"MPIEXEC_RESTART_REASON=node", "MPIEXEC_LOST_NODES=b,c", "MPIEXEC_PREVIOUS_SIZE=4"}
	if !slices.Equal(second.GlobalEnv, want) {
		t.Errorf("%q, want %q", second.GlobalEnv, want)
	}
	if want := []string{"x", "y", "--resume"}; !slices.Equal(second.Apps[0].Argv, want) {
		t.Errorf("%q, want %q", second.Apps[0].Argv, want)
	}
	if !second.Streams.Out.Append || !second.SkipUnreachable {
		t.Error("its output is not appended, or it insists on nodes that are lost")
	}
	if plain := NextRequest(job.Request{GlobalEnv: []string{"A=1"}}, nil); len(plain.GlobalEnv) != 1 {
		t.Errorf("a job that is not started again is told %q", plain.GlobalEnv)
	}
}
