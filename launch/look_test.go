package launch_test

import (
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/launch/node"
	"remshell/launch/reserve"
)

// A node that is closed in the cluster file is not contacted (placement.md 3).
func TestClosedNodeIsNotContacted(t *testing.T) {
	r := launchtest.NewRun(2, "echo here", "a:2", "b:2")
	r.Req.Nodes[0].NoJobs = true
	result, err := r.Do(t)
	if err != nil || result.Code != 0 || r.Out.String() != "here\nhere\n" {
		t.Errorf("%+v, %v, %q", result, err, r.Out.String())
	}
	if r.Helpers.PID("a") != 0 {
		t.Error("the closed node was contacted")
	}
}

// Look makes the same plan as Run, starts nothing, and leaves no helper behind.
func TestLook(t *testing.T) {
	r := launchtest.NewRun(1, "echo never", "a", "b")
	r.Req.Queue.LedgerDir = t.TempDir()
	var seen job.Snapshot
	env := reserve.Env{Connector: node.Connector{Dialer: &r.Helpers, GreetTimeout: 10 * time.Second}, Signals: r.Signals,
		Report: func(string) {}, OnSnapshot: func(s job.Snapshot) { seen = s }}
	snap, err := reserve.Survey(t.Context(), r.Req, env)
	if err != nil || len(snap.Nodes) != 2 || snap.Nodes[1].Name != "b" || snap.Nodes[0].Topology.CountUsableCores() == 0 {
		t.Errorf("%+v, %v", snap, err)
	}
	if len(seen.Nodes) != 2 || r.Out.String() != "" {
		t.Errorf("seen %d nodes, output %q", len(seen.Nodes), r.Out.String())
	}
}
