//go:build linux

package launch_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/test/crowd"
	"remshell/trace"
)

// A trace has the steps of mpiexec, of each host and of each rank, also of spawned ranks.
func TestSteps(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewPMIRun(2, "barrier; 0: spawn 1 child", map[string]string{"child": "barrier"}, "a:1", "b:2"))
	r.ExpectLines(t, "spawn")
	steps := launchtest.StepsOf(t, r)
	launchtest.ExpectSteps(t, steps, ": job", ": connect", ": decision lock", ": survey", ": plan", ": claim", ": run", ": start", ": first fence", ": end", ": output",
		"a: reach", "a: greeting", "a: decision lock", "a: survey", "a: claim", "a: start", "a: first fence", "a: end", "a rank 0: run",
		"b: reach", "b: greeting", "b: survey", "b: claim", "b: start", "b: first fence", "b: end", "b rank 1: run",
		"group 1: survey", "group 1: plan", "group 1: claim", "group 1: run", "group 1: start", "b rank 1:0: run")
	launchtest.ExpectSteps(t, steps, "a: survey", "a: survey", "b: claim", "b: claim", "b: start", "b: start") // of the job and of the spawn
}

// It also has the files that a job stages.
func TestTraceOfStaging(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewRun(2, "", "a", "b"))
	r.AddStagedFile("one", []byte("x"))
	if result, err := r.Do(t); err != nil || result.Code != 0 {
		t.Errorf("code %d, %v, stderr %q", result.Code, err, r.Err.String())
	}
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": stage", "a: stage", "b: stage")
}

// It shows for each host why a job has not started, or has failed.
func TestTraceOfFailures(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewRun(2, "", "a", "nowhere"))
	if _, err := r.Do(t); err == nil {
		t.Error("a host that is nowhere was reached")
	}
	steps := launchtest.StepsOf(t, r)
	launchtest.ExpectSteps(t, steps, ": job (nowhere: no such host)", "a: reach", "nowhere: reach (no such host)")
	if slices.Contains(steps, ": survey") {
		t.Errorf("there was a survey:\n%s", strings.Join(steps, "\n"))
	}

	r = launchtest.RecordSteps(launchtest.NewRun(2, "exit 3", "a", "b"))
	r.Req.Apps[0].Argv[0] = "no-such-program"
	r.Do(t)
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), "a: claim (program no-such-program: not found in PATH)")

	r = launchtest.RecordSteps(launchtest.NewRun(2, "test $PMI_RANK = 0 || exit 3", "a", "b"))
	r.Do(t)
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": job (rank 1 on b exited with code 3)", "b rank 1: run (exit code 3)")

	r = launchtest.RecordSteps(launchtest.NewRun(2, "test $PMI_RANK = 0 || kill -9 $PPID; sleep 600", "a", "b"))
	r.Do(t)
	if steps := launchtest.StepsOf(t, r); !slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, "b") && strings.HasSuffix(s, ")") }) {
		t.Errorf("the lost host is not told of:\n%s", strings.Join(steps, "\n"))
	}
}

// Attempts follow each other, with the fence and pause between them.
func TestTraceOfAttempts(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewRun(1, "exit 3", "a"))
	r.Req.Restart = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByExitCode}, Delay: time.Millisecond}
	r.Do(t)
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": attempt 0 (rank 0 on a exited with code 3)", ": fence", ": pause", ": attempt 1 (rank 0 on a exited with code 3)",
		"a rank 0: run (exit code 3)", "a rank 0: run (exit code 3)")
	var ended time.Duration
	for _, s := range r.Steps.Trace().Spans {
		if strings.HasPrefix(s.Step, trace.Attempt) {
			if s.Began < ended {
				t.Errorf("%s began before the one before it had ended", s.Step)
			}
			ended = s.Ended
		}
	}
}

// In very large jobs the ranks of a host share one row, and the trace says so.
func TestTraceOfManyRanks(t *testing.T) {
	const hosts, ranks = 80, 64
	c := crowd.FakeHosts{Timeline: trace.New(time.Now)}
	launchCrowd(t, &c, hosts, ranks)
	run := c.Timeline.Trace()
	rows := make(map[trace.Row]int)
	for _, s := range run.Spans {
		rows[s.Row]++
	}
	if len(rows) != 1+2*hosts || len(run.Spans) > 20*hosts {
		t.Errorf("%d hosts of %d ranks have %d rows with %d spans", hosts, ranks, len(rows), len(run.Spans))
	}
	if len(run.Notes) != 1 || !strings.Contains(run.Notes[0], "have one row for each host") {
		t.Errorf("the notes are %q", run.Notes)
	}
}
