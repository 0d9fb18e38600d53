//go:build linux

package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/launch/launchtest"
)

// Names are published for the whole job, and found on all nodes.
func TestNames(t *testing.T) {
	launchtest.NewPMIRun(2, "0: lookup svc; 0: publish svc tag#0$port#4 =; barrier; 1: lookup svc; 1: publish svc q; barrier; "+
		"1: unpublish svc; barrier; 0: lookup svc; 0: unpublish svc", nil, "a", "b").ExpectLines(t,
		"lookup svc failed: service_not_found",
		"publish svc",
		"lookup svc: tag#0$port#4 =",
		"publish svc failed: key_already_present",
		"unpublish svc",
		"lookup svc failed: service_not_found",
		"unpublish svc failed: service_not_found")
}

// Values that ranks of many nodes put arrive unchanged, though they are compressed on the way.
func TestALargeFenceOfManyNodes(t *testing.T) {
	const many = 16
	var nodes []string
	var script strings.Builder
	value := func(rank int) string { return strings.Repeat(fmt.Sprintf("card-of-rank-%d$", rank), 300) }
	for rank := range many {
		nodes = append(nodes, fmt.Sprint("n", rank))
		fmt.Fprintf(&script, "%d: put k%d %s; ", rank, rank, value(rank))
	}
	script.WriteString("barrier; 0: get k15; 15: get k0")
	launchtest.NewPMIRun(many, script.String(), nil, nodes...).ExpectLines(t, "get k15: "+value(15), "get k0: "+value(0))
}

// Ranks spawn ranks on two nodes; each line is a sentence of the manual.
func TestSpawn(t *testing.T) {
	here, _ := os.Hostname()
	said := func(rank, size, app int) string {
		return fmt.Sprintf("rank %d of %d, appnum %d on %s, spawned", rank, size, app, here)
	}
	scripts := map[string]string{
		"child":  "hello; barrier",
		"host":   "env MPIEXEC_HOST",
		"parent": "get parent",
		"meet":   "0: put k v; barrier; 1: get k; barrier",
		"nested": "spawn 1 leaf",
		"leaf":   "say leaf",
		"dir":    "env PWD",
		"name":   "await there; publish here q",
		"size":   "env MPIEXEC_SIZE; env MPIEXEC_RANK",
	}
	for name, test := range map[string]struct {
		script string
		nodes  []string
		want   []string
	}{
		"one":            {"spawn 2 child", []string{"a:3"}, []string{"spawn", said(0, 2, 0), said(1, 2, 0)}},
		"several":        {"spawn 1 child + 2 child", []string{"a:2", "b:2"}, []string{"spawn", said(0, 3, 0), said(1, 3, 1), said(2, 3, 1)}},
		"after another":  {"spawn 1 child; spawn 1 child", []string{"a:3"}, []string{"spawn", "spawn", said(0, 1, 0), said(0, 1, 0)}},
		"its parent":     {"spawn 1 parent", []string{"a:2"}, []string{"spawn", "get parent: test"}},
		"its own group":  {"0: put k wrong; spawn 2 meet; barrier", []string{"a:2", "b:1"}, []string{"spawn", "get k: v"}},
		"nested":         {"spawn 1 nested", []string{"a:1", "b:1", "c:1"}, []string{"spawn", "spawn", "leaf"}},
		"on other nodes": {"spawn 2 host", []string{"a:1", "b:1", "c:1"}, []string{"spawn", "env MPIEXEC_HOST: b", "env MPIEXEC_HOST: c"}},
		"host":           {"spawn 1 host host=c", []string{"a:3", "b:3", "c:3"}, []string{"spawn", "env MPIEXEC_HOST: c"}},
		"hosts in order": {"spawn 2 host hosts=c,b", []string{"a:1", "b:1", "c:1"}, []string{"spawn", "env MPIEXEC_HOST: b", "env MPIEXEC_HOST: c"}},
		"wdir":           {"spawn 1 dir wdir=/tmp", []string{"a:2"}, []string{"spawn", "env PWD: /tmp"}},
		"relative wdir":  {"spawn 1 dir wdir=tmp", []string{"a:2"}, []string{"spawn", "env PWD: /tmp"}},
		"unknown keys":   {"spawn 1 leaf color=blue", []string{"a:2"}, []string{"spawn", "leaf"}},
		"names":          {"publish there p; spawn 1 name; await here", []string{"a:1", "b:1"}, []string{"publish there", "spawn", "await there: p", "publish here", "await here: q"}},
		"places":         {"spawn 1 size", []string{"a:2"}, []string{"spawn", "env MPIEXEC_SIZE: 1", "env MPIEXEC_RANK: 0"}},
		"soft":           {"spawn 9 leaf soft=1:9:2", []string{"a:5"}, []string{"spawn", "leaf", "leaf", "leaf"}},
	} {
		t.Run(name, func(t *testing.T) {
			launchtest.NewPMIRun(1, test.script, scripts, test.nodes...).ExpectLines(t, test.want...)
		})
	}
}

// A spawn that is not possible is refused with a reason, and all ranks go on.
func TestSpawnRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for what, reason := range map[string]string{
		"1 leaf arch=pdp11":                 "no host can take this job",
		"1 x program=/no/where":             "a: program /no/where: no such file",
		"2 x host=b program=" + script:      "b: program " + script + ": its interpreter or loader is missing",
		"1 leaf + 1 leaf program=/no/where": "a: program /no/where: no such file",
		"1 leaf wdir=/no/where":             "a: working directory /no/where: no such file",
		"1 leaf host=nowhere":               "rank 0 on a wants to spawn on nowhere, which the job does not have; not done (--spawn-hosts nowhere allows it)",
		"1 leaf soft=some":                  "info key soft: \"some\" is no set of numbers",
		"1 leaf file=/no/where":             "info key file: /no/where: no such file",
		"1 leaf + 2 leaf program=" + script: "its interpreter or loader is missing",
	} {
		r := launchtest.NewPMIRun(1, "spawn "+what+"; say on; spawn 1 leaf", map[string]string{"leaf": "say leaf"}, "a:4", "b:4")
		result, err := r.Do(t)
		if err != nil || result.Code != 0 || !strings.Contains(r.Err.String(), "mpiexec: rank 0 on a") ||
			!strings.Contains(r.Err.String(), reason) || !strings.Contains(r.Out.String(), "\non\n") || !strings.HasSuffix(r.Out.String(), "leaf\n") && !strings.HasSuffix(r.Out.String(), "spawn\n") {
			t.Errorf("spawn %s: code %d, %v, stdout %q, stderr %q; want %q", what, result.Code, err, r.Out.String(), r.Err.String(), reason)
		}
	}
}

// Info keys may come from a file; keys given directly take precedence.
func TestSpawnInfoFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info := write("info", "# where to go\nhost = b\n wdir=/tmp\n")
	hosts := write("hosts", "c\n")
	launchtest.NewPMIRun(1, "spawn 1 x file="+info+"; spawn 1 x wdir=/ hostfile="+hosts, map[string]string{"x": "env MPIEXEC_HOST; env PWD"},
		"a:2", "b:2", "c:2").ExpectLines(t, "spawn", "env MPIEXEC_HOST: b", "env PWD: /tmp", "spawn", "env MPIEXEC_HOST: c", "env PWD: /")
}

// Many ranks spawn at the same time, and again; ranks that have ended free their slots.
func TestSpawnsAtTheSameTime(t *testing.T) {
	const each = 5
	script := "spawn 2 x; await done; " + strings.Repeat("spawn 1 y; ", each)
	r := launchtest.NewPMIRun(4, script, map[string]string{"x": "0: publish done p; 1: await done", "y": "say y"}, "a:20", "b:20")
	result, err := r.Do(t)
	if spawned := strings.Count(r.Out.String(), "spawn\n"); err != nil || result.Code != 0 || spawned != 4*(1+each) {
		t.Errorf("code %d, %v, %d spawns: %s%s", result.Code, err, spawned, r.Out.String(), r.Err.String())
	}
	if said := strings.Count(r.Out.String(), "y\n"); said != 4*each {
		t.Errorf("%d of %d have spoken", said, 4*each)
	}
}

// An abort or failure in any group ends the whole job with its code, and the report names the rank
// with its group.
func TestSpawnedFail(t *testing.T) {
	for script, want := range map[string]string{
		"1: abort 7 enough; hang":   "rank 1:1 on b called MPI_Abort with code 7: enough\n  program   /proc/self/exe @child ",
		"finalize; 1: exit 9; hang": "rank 1:1 on b exited with code 9",
	} {
		r := launchtest.NewPMIRun(2, "barrier; 0: spawn 2 child; hang", map[string]string{"child": script}, "a:2", "b:2")
		r.Req.Apps[0].PerNode = 1
		result, err := r.Do(t)
		if err != nil || !strings.HasPrefix(r.Report(), want) || result.Code == 0 {
			t.Errorf("%s: code %d, %v: %s", script, result.Code, err, r.Err.String())
		}
	}
}

// Labels show the group of a spawned rank.
func TestSpawnedLabels(t *testing.T) {
	r := launchtest.NewPMIRun(1, "say parent; spawn 2 x", map[string]string{"x": "say child"}, "a:3")
	r.Req.Streams.Out.Label = "[%r] "
	r.ExpectLines(t, "[0] parent", "[0] spawn", "[1:0] child", "[1:1] child")
}

// A job that ends while a spawn searches its place leaves nothing behind.
func TestSpawnAtTheEnd(t *testing.T) {
	r := launchtest.NewPMIRun(2, "0: spawn 1 x host=slow; 1: abort 3 now; hang", map[string]string{"x": "hang"}, "a:2", "b:1")
	result, err := r.Do(t)
	if err != nil || result.Code != 3 {
		t.Errorf("code %d, %v: %s", result.Code, err, r.Err.String())
	}
}

// Ranks of all groups may connect to their server by a port (-pmi-port), and send everything,
// including their last messages.
func TestPort(t *testing.T) {
	r := launchtest.NewPMIRun(2, "0: put k v; barrier; 1: get k; 0: spawn 2 child", map[string]string{"child": "get parent; env PMI_FD; barrier"}, "a:2", "b:2")
	r.Req.Apps[0].PerNode = 1
	r.Req.PMIPort = true
	r.ExpectLines(t, "get k: v", "spawn", "get parent: test", "get parent: test", "env PMI_FD: unset", "env PMI_FD: unset")

	r = launchtest.NewPMIRun(2, "1: abort 7 enough; hang", nil, "a", "b")
	r.Req.PMIPort = true
	if result, err := r.Do(t); err != nil || result.Code != 7 || !strings.Contains(r.Err.String(), "code 7: enough") {
		t.Errorf("abort: code %d, %v: %s", result.Code, err, r.Err.String())
	}
	r = launchtest.NewPMIRun(2, "1: exit 3; hang", nil, "a", "b")
	r.Req.PMIPort = true
	if result, err := r.Do(t); err != nil || result.Code != 3 {
		t.Errorf("exit: code %d, %v: %s", result.Code, err, r.Err.String())
	}
}

// Old clients ask which ranks are on which node (pmi-wire.md 2.9), in any group.
func TestRanksToHosts(t *testing.T) {
	r := launchtest.NewPMIRun(4, "hosts; barrier; 0: spawn 2 where host=b,a", map[string]string{"where": "0: hosts; barrier"}, "a:3", "b:3")
	r.Req.Apps[0].PerNode = 3
	const all = "hosts: put_ranks2hosts 20 2 | 1 a 0,1,2, 1 b 3, "
	r.ExpectLines(t, all, all, all, all, "spawn", "hosts: put_ranks2hosts 11 1 | 1 b 0,1, ")
	launchtest.NewPMIRun(2, "1: hosts", nil, "a:2").ExpectLines(t, "hosts: put_ranks2hosts 11 1 | 1 a 0,1, ")
}
