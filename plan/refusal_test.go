package plan

import (
	"errors"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
	"remshell/plan/nodeset"
)

// If nodes are too few, the error does not name a user to ask for CPUs.
func TestTooFewNodesThatAreInUse(t *testing.T) {
	def := job.NodeDef{Name: "a", Slots: 1}
	n := job.Node{NodeDef: def, Probe: job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0}}}}}}
	n.Occupancy = job.Occupancy{Ranks: 1, BusyCPUs: []int{0}, TopUser: "eve", TopJob: "eve-1"}
	req := job.Request{Nodes: []job.NodeDef{def}, Apps: []job.App{{N: 1}}}
	for least, want := range map[int]string{
		0: "a: jobs of eve have used all 1 CPU",
		2: "1 node can be reached, but --min-nodes requires 2",
	} {
		req.MinNodes = least
		if _, err := Make(req, job.Snapshot{Nodes: []job.Node{n}}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("--min-nodes %d: %v, want %q", least, err, want)
		}
	}
}

// If no set can ever run the job, the error does not advise waiting.
func TestNobodyWaitsForASetThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		speed     int64 // of the second node
		busy      bool
		permanent bool
	}{
		"no such set": {3000, false, true},
		"in use":      {2000, true, false},
	} {
		req := job.Request{Apps: []job.App{{N: 2}}}
		req.NodeSet = request(t, "ONEOF:PROCSPEED")
		var snap job.Snapshot
		for i, speed := range []int64{2000, test.speed, 1000, 500} {
			def := job.NodeDef{ID: i, Name: string(rune('a' + i))}
			def.Attributes = nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(speed)}}
			n := job.Node{NodeDef: def, Probe: job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0}, CoreLocation: pin.UnknownLocation}}}}}
			if test.busy && i == 0 {
				n.Occupancy = job.Occupancy{Ranks: 1, BusyCPUs: []int{0}}
			}
			req.Nodes, snap.Nodes = append(req.Nodes, def), append(snap.Nodes, n)
		}
		_, err := Make(req, snap)
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != CodeNoSet || failed.Permanent != test.permanent {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(failed.Remedy, "--wait") == test.permanent || !strings.Contains(failed.Remedy, "to use several sets: --node-set-plus SPANEVENLY; to use hosts outside of a set: --node-set-optional yes") {
			t.Errorf("%s: %s; %s", name, failed.Text, failed.Remedy)
		}
	}
}

// The advised command with which an administrator ends a job names the host, without which it is refused.
func TestTheCommandToEvictNamesTheHost(t *testing.T) {
	def := job.NodeDef{Name: "a", Slots: 1}
	n := job.Node{NodeDef: def, Probe: job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0}}}}}}
	n.Occupancy = job.Occupancy{Ranks: 1, BusyCPUs: []int{0}, TopUser: "eve", TopJob: "eve-1"}
	_, err := Make(job.Request{Nodes: []job.NodeDef{def}, Apps: []job.App{{N: 1}}}, job.Snapshot{Nodes: []job.Node{n}})
	var failed *Error
	if !errors.As(err, &failed) || !strings.Contains(failed.Remedy, "(mpiexec --evict eve-1 a)") {
		t.Errorf("%v", err)
	}
}

// A host that was not probed is not reported as unreachable.
func TestAHostThatWasNotAskedIsNotUnreachable(t *testing.T) {
	_, err := Make(job.Request{Nodes: []job.NodeDef{{Name: "a", Slots: 1}}, Apps: []job.App{{N: 1}}}, job.Snapshot{})
	var failed *Error
	if !errors.As(err, &failed) || len(failed.Rejected) != 1 {
		t.Fatalf("%v", err)
	}
	if got := FoldReasons(failed.Rejected); got[0] != "a: it was not asked" {
		t.Errorf("%q", got)
	}
}

// If the user's own jobs use the CPUs, the error does not advise asking that user or an administrator.
func TestWhomToAskForCPUsInUse(t *testing.T) {
	def := job.NodeDef{Name: "a", Slots: 1}
	n := job.Node{NodeDef: def, Probe: job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{0}}}}}}
	req := job.Request{Nodes: []job.NodeDef{def}, Apps: []job.App{{N: 1}}, User: job.User{Name: "ann"}}
	for _, test := range []struct {
		who  string
		idle bool
		way  string
	}{
		{"eve", false, "ask eve or an administrator to free the CPUs (mpiexec --evict j1 a), or use --wait to wait for other jobs to end"},
		{"eve", true, "ask eve or an administrator to free the CPUs (mpiexec --evict j1 a), or use --wait to wait for other jobs to end"},
		{"ann", false, "end one of your jobs: mpiexec --end j1 a, or use --wait to wait for other jobs to end"},
		{"ann", true, "remove the claims of that job: mpiexec --evict j1 a, or use --wait to wait for other jobs to end"},
	} {
		n.Occupancy = job.Occupancy{Ranks: 1, BusyCPUs: []int{0}, TopUser: test.who, TopJob: "j1", Idle: test.idle}
		_, err := Make(req, job.Snapshot{Nodes: []job.Node{n}})
		var failed *Error
		if !errors.As(err, &failed) || failed.Remedy != test.way {
			t.Errorf("%s, idle %v: %+v, want %q", test.who, test.idle, err, test.way)
		}
	}
}

// --no-share-hosts that leaves an app context without a host says so.
func TestNoSharedHostsLeft(t *testing.T) {
	app := func(n int, name string, hosts ...string) job.App {
		return job.App{N: n, Hosts: hosts, Argv: []string{name}}
	}
	for _, test := range []struct {
		cluster string
		apps    []job.App
		want    string
	}{
		{"n1:4", []job.App{app(1, "a"), app(1, "b")}, "--no-share-hosts: 2 app contexts need 2 hosts, but mpiexec can use only 1"},
		{"n1:4 n2:4", []job.App{app(1, "a"), app(1, "b"), app(1, "c")}, "--no-share-hosts: 3 app contexts need 3 hosts, but mpiexec can use only 2"},
		{"n1:4 n2:4", []job.App{app(1, "a", "n1", "n2"), app(1, "b", "n1", "n2"), app(1, "c", "n1", "n2")}, "--no-share-hosts: 3 app contexts need 3 hosts, but mpiexec can use only 2"},
		{"n1:2 n2:2", []job.App{app(4, "a"), app(1, "b")}, "--no-share-hosts: other app contexts use all hosts that are allowed for b: n[1-2]"},
	} {
		req, snap := requestFor(job.Request{Apps: test.apps, Placement: job.Placement{NoSharedHosts: true}}, cluster(test.cluster))
		_, err := Make(req, snap)
		var failed *Error
		if !errors.As(err, &failed) || failed.Text != test.want || !strings.HasPrefix(failed.Remedy, "add hosts, or let app contexts share hosts with --share-hosts") {
			t.Errorf("%s: %v; want %s", test.cluster, err, test.want)
		}
	}
}

// The hint of a refused job says how root may open drained nodes that it could use, and only these.
func TestUndrainHint(t *testing.T) {
	for drained, want := range map[string]string{
		"":       "share CPUs with --oversubscribe",
		"b":      "; or ask root to run: mpijob undrain root@b",
		"a b":    "; or ask root to run: mpijob undrain root@a root@b",
		"abcdef": "; or ask root to run: mpijob undrain root@HOST",
	} {
		req, snap := requestFor(job.Request{Apps: []job.App{{N: 99}}}, cluster("a:2 b:2 c:2 d:2 e:2 f:2 g:2"))
		for i := range snap.Nodes {
			if n := &snap.Nodes[i]; strings.Contains(drained, n.Name) {
				n.ClosedWhy, n.Drained = "was drained by root", true
			} else if n.Name == "g" {
				n.ClosedWhy = "is the host is reserved for other users"
			}
		}
		_, err := Make(req, snap)
		var failed *Error
		if !errors.As(err, &failed) || !strings.HasSuffix(failed.Remedy, want) || strings.Contains(failed.Remedy, "undrain") != (drained != "") {
			t.Errorf("%q: %v, hint %q, want %q", drained, err, failed.Remedy, want)
		}
	}
}
