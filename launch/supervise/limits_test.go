package supervise

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/limits"
)

// A job that exceeds a limit is ended once, with the text of RM-56.
func TestAnExceededLimitEndsTheJob(t *testing.T) {
	overMem := LimitExceeded{limits.Excess{Name: limits.Mem, Used: 100, Allowed: 99, From: "--limit"}}
	hour := TimeLimit{time.Hour, "--limit"}
	for _, test := range []struct {
		name   string
		rules  Policy
		events []any
		want   string // empty: the job goes on
	}{
		{"memory", Policy{}, []any{overMem}, "mem 100 exceeded limit 99"},
		{"wall time", Policy{WallTime: hour}, []any{after(time.Hour + 1), Tick{}}, "walltime 3601 exceeded limit 3600"},
		{"not yet", Policy{WallTime: hour}, []any{after(time.Hour), Tick{}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			state := NewState(twoNodes, test.rules, now)
			lines := ""
			for _, e := range test.events {
				if wait, is := e.(after); is {
					now = now.Add(time.Duration(wait))
					continue
				}
				for _, action := range state.Step(e.(Event), now) {
					if line, is := action.(BatchLine); is {
						lines += line.Text
					}
				}
			}
			if test.want == "" {
				if lines != "" || state.Cause != nil {
					t.Errorf("it prints %q", lines)
				}
				return
			}
			if lines != "=>> mpiexec: job killed: "+test.want || state.ExitCode() != job.ExitTimeout || state.Phase != Ending || state.Cause.Reason() != "limit" {
				t.Errorf("it prints %q, exit code %d", lines, state.ExitCode())
			}
			if report := state.Report(func(int) RankProfile { return RankProfile{} }, Sequel{}); !strings.HasPrefix(report, state.Cause.Text+"\n") || !strings.Contains(report, " used") || strings.Contains(report, "exceeded") {
				t.Errorf("the report is %q", report)
			}
			if again := state.Step(overMem, now); len(again) > 0 {
				t.Errorf("it ends the job again: %v", again)
			}
		})
	}
}

// The smaller of -timeout and the walltime limit counts, each with its own text.
func TestTimeoutBesideALimit(t *testing.T) {
	for _, test := range []struct {
		timeout, wall time.Duration
		want          string
	}{
		{time.Minute, time.Hour, "the job ran longer than -timeout 1m0s"},
		{time.Hour, time.Minute, "walltime: 60.001 s used, 60 s allowed by --limit"},
	} {
		now := time.Unix(1_000_000, 0)
		state := NewState(twoNodes, Policy{Timeout: test.timeout, WallTime: TimeLimit{test.wall, "--limit"}}, now)
		state.Step(Tick{}, now.Add(time.Minute+1))
		if state.Cause == nil || state.Cause.Text != test.want {
			t.Errorf("%v, want %s", state.Cause, test.want)
		}
	}
}

// The wall time that a job has used does not include the time in which its ranks stood still, and
// includes earlier attempts: it is just above the limit.
func TestTheWallTimeUsedIsThatOfTheLimit(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	const want = "walltime: 60.001 s used, 60 s allowed by --limit"
	suspended := NewState(twoNodes, Policy{WallTime: TimeLimit{time.Minute, "--limit"}}, began)
	suspended.Suspend(began.Add(time.Second))
	suspended.Resume(began.Add(time.Hour + time.Second))
	suspended.Step(Tick{}, began.Add(time.Hour+time.Minute+1))
	if suspended.Cause == nil || suspended.Cause.Text != want {
		t.Errorf("suspended for an hour: %+v, want %s", suspended.Cause, want)
	}
	again := NewState(twoNodes, Policy{WallTime: TimeLimit{time.Minute, "--limit"}, Since: began}, began.Add(50*time.Second))
	again.Step(Tick{}, began.Add(time.Minute+1))
	if again.Cause == nil || again.Cause.Text != want {
		t.Errorf("second attempt: %+v, want %s", again.Cause, want)
	}
}
