//go:build linux

package ranktrace

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/launchtest"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/test/crowd"
	"remshell/trace"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// A trace has the steps of running ranks: those of the job, of each host and of each rank.
func TestSteps(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewPMIRun(2, "barrier; 0: say done", nil, "a", "b"))
	r.ExpectLines(t, "done")
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": run", ": start", ": first fence", ": end",
		"a: start", "a: first fence", "a: end", "a rank 0: run",
		"b: start", "b: first fence", "b: end", "b rank 1: run")
}

// A spawned group has rows of its own, and its ranks have its number.
func TestStepsOfASpawnedGroup(t *testing.T) {
	rec := trace.New(time.Now)
	j := &launch.Job{Env: launch.Env{Env: reserve.Env{Connector: node.Connector{Trace: rec}}}, Size: 3, GroupFirsts: []int{0, 2}}
	b := &launch.Node{Node: reserve.Node{Node: &node.Node{Def: job.NodeDef{Name: "b"}}}}
	g := &launch.Group{First: 2, Nodes: []*launch.Node{b}, Plan: job.Plan{Size: 1, Nodes: []job.NodePlan{{Ranks: []job.RankPlan{{Rank: 0}}}}}}
	spans := &jobTrace{job: j, rec: rec, groups: make(map[*launch.Group]*groupTrace)}
	spans.addGroup(g)
	spans.groups[g].started(b, 2, "1:0", "")
	spans.groups[g].exited(b, &job.Exit{Rank: 2})
	spans.groupEnded(g)
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, &launchtest.Run{Steps: rec}), "group 1: run", "group 1: start", "b: start", "b rank 1:0: run")
}

// It shows which rank or host has failed.
func TestTraceOfFailures(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewRun(2, "test $PMI_RANK = 0 || exit 3", "a", "b"))
	r.Do(t)
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), "b rank 1: run (exit code 3)")

	r = launchtest.RecordSteps(launchtest.NewRun(2, "test $PMI_RANK = 0 || kill -9 $PPID; sleep 600", "a", "b"))
	r.Do(t)
	if steps := launchtest.StepsOf(t, r); !slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, "b") && strings.HasSuffix(s, ")") }) {
		t.Errorf("the lost host is not told of:\n%s", strings.Join(steps, "\n"))
	}
}

// Each attempt has steps of its ranks.
func TestTraceOfAttempts(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewRun(1, "exit 3", "a"))
	r.Req.Restart = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByExitCode}, Delay: time.Millisecond}
	r.Do(t)
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), "a rank 0: run (exit code 3)", "a rank 0: run (exit code 3)")
}

// In very large jobs the ranks of a host share one row, and the trace says so.
func TestTraceOfManyRanks(t *testing.T) {
	const hosts, ranks = 80, 64
	c := crowd.FakeHosts{Timeline: trace.New(time.Now)}
	if err := c.Launch(t.Context(), hosts, ranks, t.Output()); err != nil {
		t.Fatal(err)
	}
	run := c.Timeline.Trace()
	rows := make(map[trace.Row]int)
	for _, s := range run.Spans {
		rows[s.Row]++
	}
	if len(rows) != 1+2*hosts || len(run.Spans) > 20*hosts {
		t.Errorf("%d hosts of %d ranks have %d rows with %d spans", hosts, ranks, len(rows), len(run.Spans))
	}
	if len(run.Remarks) != 1 || run.Remarks[0] != "the job has more than 4096 ranks, so the ranks of a host share one row" {
		t.Errorf("the remarks are %q", run.Remarks)
	}
}
