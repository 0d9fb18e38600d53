//go:build linux

package launchtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/trace"
)

// RecordSteps turns on the trace of a job, for StepsOf. It returns r.
func RecordSteps(r *Run) *Run {
	r.Steps = trace.New(time.Now)
	return r
}

// StepsOf returns the trace steps of a job in the order of their start, as "n1 rank 0: run (why)". Steps
// with impossible times fail the test.
func StepsOf(t *testing.T, r *Run) (steps []string) {
	t.Helper()
	for _, s := range r.Steps.Trace().Spans {
		line := strings.TrimSpace(s.Host+" "+s.Part) + ": " + s.Step
		if s.Why != "" {
			line += " (" + s.Why + ")"
		}
		if s.Open || s.Began < 0 || s.Ended < s.Began {
			t.Errorf("%s is from %v to %v, open: %v", line, s.Began, s.Ended, s.Open)
		}
		steps = append(steps, line)
	}
	return steps
}

// ExpectSteps checks that each step in want occurs in steps, as often as want has it.
func ExpectSteps(t *testing.T, steps []string, want ...string) {
	t.Helper()
	for _, step := range want {
		i := slices.Index(steps, step)
		if i < 0 {
			t.Errorf("%q is missing in\n%s", step, strings.Join(steps, "\n"))
			return
		}
		steps = slices.Delete(slices.Clone(steps), i, i+1)
	}
}
