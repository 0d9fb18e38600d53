package queue

import (
	"testing"
	"time"

	"remshell/plan"
)

// A waiting request prints a reason that people understand, not a code.
func TestWaitReason(t *testing.T) {
	until := time.Date(2026, 11, 26, 12, 0, 5, 0, time.UTC)
	texts := map[string]string{plan.CodeNoNodes: "no host can take this job now", CodeUnreachable: "n1: no route to host"}
	for code, want := range map[string]string{
		plan.CodeNotEnough:     "there are free CPUs for only 9 of 16 ranks",
		plan.CodeLimits:        "limits allow only 9 of 16 ranks",
		plan.CodeNoGPU:         "there are free GPUs for only 9 of 16 ranks",
		plan.CodeNoSet:         "the largest node set has room for only 9 of 16 ranks",
		plan.CodeNotContiguous: "neighbouring nodes have room for only 9 of 16 ranks",
		plan.CodeDelayed:       "mpiexec waits until 12:00:05 for a better node set",
		plan.CodeQueueBusy:     "other requests are ahead",
		plan.CodeNoNodes:       "no host can take this job now",
		CodeUnreachable:        "n1: no route to host",
	} {
		failed := &plan.Error{Code: code, Text: texts[code], WantedRanks: 16, FreeRanks: 9}
		if texts[code] != "" {
			failed.WantedRanks, failed.FreeRanks = 0, 0
		}
		if got := waitReason(failed, until); got != want {
			t.Errorf("%s: %q; want %q", code, got, want)
		}
	}
}
