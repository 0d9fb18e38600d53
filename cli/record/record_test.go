package record

import (
	"testing"

	"remshell/job"
)

// The record of a job that runs has no reason for its end; that of one that has ended does.
func TestReasonOfTheEnd(t *testing.T) {
	result := job.Result{Reason: "ok", Usage: job.JobUsage{Nodes: make([]job.UsageTotal, 1)}}
	interim := NewInterim(result)
	if interim.AddUsage(result, nil); interim.JobUsage.Reason != nil {
		t.Errorf("while it runs: %q", *interim.JobUsage.Reason)
	}
	final := NewRun(result, nil, 0)
	if final.AddUsage(result, nil); final.JobUsage.Reason == nil || *final.JobUsage.Reason != "ok" {
		t.Errorf("at the end: %v", final.JobUsage.Reason)
	}
}
