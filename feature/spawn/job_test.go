//go:build linux

package spawn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "remshell/feature" // ranks publish names
	own "remshell/feature/spawn"
	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/pmiserver/spawn"
	"remshell/test/crowd"
	"remshell/test/pmixtest"
	"remshell/wire"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// Ranks spawn ranks on two nodes; each line is a sentence of the guide.
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
		"1 leaf host=nowhere":               "rank 0 on a: the spawn was refused: the job does not include nowhere (allowed with --spawn-hosts nowhere)",
		"1 leaf soft=some":                  `info key "soft": "some" is not a set of numbers such as 2:8 or 4,6`,
		"1 leaf file=/no/where":             `info key "file": /no/where: no such file`,
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

// Ranks of a spawned group may connect to their server by a port (-pmi-port), as their parents do.
func TestPort(t *testing.T) {
	r := launchtest.NewPMIRun(2, "0: put k v; barrier; 1: get k; 0: spawn 2 child", map[string]string{"child": "get parent; env PMI_FD; barrier"}, "a:2", "b:2")
	r.Req.Apps[0].PerNode = 1
	r.Req.PMIPort = true
	r.ExpectLines(t, "get k: v", "spawn", "get parent: test", "get parent: test", "env PMI_FD: unset", "env PMI_FD: unset")
}

// Old clients ask which ranks of their own group are on which node (pmi-wire.md 2.9).
func TestRanksToHosts(t *testing.T) {
	r := launchtest.NewPMIRun(4, "hosts; barrier; 0: spawn 2 where host=b,a", map[string]string{"where": "0: hosts; barrier"}, "a:3", "b:3")
	r.Req.Apps[0].PerNode = 3
	const all = "hosts: put_ranks2hosts 20 2 | 1 a 0,1,2, 1 b 3, "
	r.ExpectLines(t, all, all, all, all, "spawn", "hosts: put_ranks2hosts 11 1 | 1 b 0,1, ")
}

// A trace has the steps of a spawn.
func TestSteps(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewPMIRun(2, "barrier; 0: spawn 1 child", map[string]string{"child": "barrier"}, "a:1", "b:2"))
	r.ExpectLines(t, "spawn")
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), "group 1: survey", "group 1: plan", "group 1: claim",
		"a: survey", "a: survey", "b: claim", "b: claim") // of the job and of the spawn
}

// If a rank of a spawn cannot be started, the others of its group are killed.
func TestAGroupIsKilled(t *testing.T) {
	launchtest.RecordJobs(t, "Spawn Spawned KillGroup", func(s launchtest.Recording) {
		broken := filepath.Join(s.TempDir(), "broken")
		if err := os.WriteFile(broken, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
			s.Fatal(err)
		}
		s.MustExit(launchtest.NewPMIRun(1, "spawn 1 leaf; spawn 1 leaf + 2 leaf program="+broken, map[string]string{"leaf": "say leaf"}, "a:4"), 0)
	})
}

// A node that has asked for the ranks of a group on another node is told when that group has ended.
func TestTheEndOfAGroupElsewhere(t *testing.T) {
	launchtest.RecordJobs(t, "GroupEnded", func(s launchtest.Recording) {
		r, enough := launchtest.NewRun(1, "", "a", "b"), filepath.Join(s.TempDir(), "enough")
		child := bfrops.Program{Command: "sh", Args: []string{"sh", "-c", `until test -e "$0"; do sleep 0.01; done`, enough}, Ranks: 1,
			Options: message.Options{{Key: "pmix.host", Value: bfrops.TextOf("b")}}}
		spawns := launchtest.EncodeRequest(&message.Spawn{Programs: []bfrops.Program{child}})
		wants := launchtest.EncodeRequest(&message.Get{Namespace: strings.TrimSuffix(pmixtest.Namespace, "0") + "1", Rank: bfrops.Wildcard, Key: "pmix.job.size"})
		r.Req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", spawns + wants}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.Req.BaseEnv.Set = []string{launchtest.PMIxMark + "=1"}
		told := s.Recorder.Log.Shows("a > RankMap\n")
		go func() {
			<-told
			os.WriteFile(enough, nil, 0o600)
		}()
		s.MustExit(r, 0)
		if r.Out.String() != "status 0\nstatus 0\n" {
			s.Errorf("it is answered by %q", r.Out.String())
		}
	})
}

// underRace is true under the race detector.
var underRace bool

// A job may spawn for days: of a group that is over only a row for each rank stays, in the report
// and in the validator of its node.
func TestSpawnsWithoutEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 10,000 spawns; make test runs it")
	}
	spawns := 10_000
	if underRace { // it makes each spawn ten times slower
		spawns = 4000
	}
	step := spawns / 10
	const most = 1 << 10 // bytes for each group
	var live []int64
	c := crowd.FakeHosts{
		Spawn: func(n int, parent string) wire.Message {
			if over := n - 1; over > 0 && over%step == 0 {
				runtime.GC()
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				live = append(live, int64(memory.HeapAlloc))
			}
			if n > spawns {
				return nil
			}
			return &own.Spawn{ID: n, Request: spawn.Request{Group: parent, Commands: []spawn.Command{{Argv: []string{"./child"}, Count: 1}}}}
		},
		IsSpawnReply: func(m wire.Message) bool {
			reply, is := m.(*own.Spawned)
			if is && reply.Err != "" {
				t.Error(reply.Err)
			}
			return is
		},
	}
	if err := c.Launch(t.Context(), 2, 2, t.Output()); err != nil {
		t.Fatal(err)
	}
	if c.Exited.Load() != int64(spawns+4) || len(live) != 10 {
		t.Fatalf("%d ranks have ended, %d looks at the heap", c.Exited.Load(), len(live))
	}
	// Lists grow in steps, so the total is measured, without the first tenth.
	if each := (live[len(live)-1] - live[0]) / int64(spawns-step); each > most {
		t.Errorf("%d bytes stay of each group; the heap after each tenth: %d", each, live)
	}
}
