//go:build linux

package launch_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/trace"
)

// A trace has the steps of mpiexec and of each host, Those of running ranks are a feature's (ranktrace).
func TestSteps(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewPMIRun(2, "barrier; 0: say done", nil, "a", "b"))
	r.ExpectLines(t, "done")
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": job", ": connect", ": decision lock", ": survey", ": plan", ": claim", ": output",
		"a: reach", "a: greeting", "a: decision lock", "a: survey", "a: claim",
		"b: reach", "b: greeting", "b: survey", "b: claim")
}

// It shows for each host why a job has not started.
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
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": job (rank 1 on b exited with code 3)")
}

// Attempts follow each other, with the fence and pause between them.
func TestTraceOfAttempts(t *testing.T) {
	r := launchtest.RecordSteps(launchtest.NewRun(1, "exit 3", "a"))
	r.Req.Restart = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByExitCode}, Delay: time.Millisecond}
	r.Do(t)
	launchtest.ExpectSteps(t, launchtest.StepsOf(t, r), ": attempt 0 (rank 0 on a exited with code 3)", ": fence", ": pause", ": attempt 1 (rank 0 on a exited with code 3)")
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
