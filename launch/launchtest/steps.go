//go:build linux

package launchtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/trace"
)

// RecordSteps records the steps of a job.
func RecordSteps(r *Run) *Run {
	r.Steps = trace.New(time.Now)
	return r
}

// StepsOf returns the steps of a run in the order of their start, as "n1 rank 0: run (why)". Steps
// with impossible times are errors.
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

// ExpectSteps checks that steps has each wanted step as often as it is named.
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
