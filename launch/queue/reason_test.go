package queue

import (
	"testing"
	"time"

	"remshell/plan"
)

// Whoever waits reads why in words: "(no-candidates)" and "(not-enough-cpus: 16 wanted, 9 free)" were codes.
func TestWhoeverWaitsReadsWords(t *testing.T) {
	until := time.Date(2026, 11, 26, 12, 0, 5, 0, time.UTC)
	words := map[string]string{plan.NoNodes: "no host can take this job now", Unreachable: "n1: no route to host"}
	for code, want := range map[string]string{
		plan.NotEnough:     "free CPUs for 9 of 16 ranks",
		plan.Limits:        "limits let in 9 of 16 ranks",
		plan.NoGPU:         "free GPUs for 9 of 16 ranks",
		plan.NoSet:         "the largest node set has room for 9 of 16 ranks",
		plan.NotContiguous: "neighbouring nodes have room for 9 of 16 ranks",
		plan.Delayed:       "for a better node set until 12:00:05",
		plan.QueueBusy:     "other requests are first",
		plan.NoNodes:       "no host can take this job now",
		Unreachable:        "n1: no route to host",
	} {
		failed := &plan.Error{Code: code, Text: words[code], Wanted: 16, Free: 9}
		if words[code] != "" {
			failed.Wanted, failed.Free = 0, 0
		}
		if got := reason(failed, until); got != want {
			t.Errorf("%s: %q; want %q", code, got, want)
		}
	}
}
