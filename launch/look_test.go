package launch_test

import (
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
)

// A node that is closed in the cluster file is not contacted (placement.md 3).
func TestClosedNodeIsNotContacted(t *testing.T) {
	r := newRun(2, "echo here", "a:2", "b:2")
	r.req.Nodes[0].NoJobs = true
	result, err := r.do(t)
	if err != nil || result.Code != 0 || r.out.String() != "here\nhere\n" {
		t.Errorf("%+v, %v, %q", result, err, r.out.String())
	}
	if _, dialed := r.dialer.pids["a"]; dialed {
		t.Error("the closed node was contacted")
	}
}

// Look makes the same plan as Run, starts nothing, and leaves no helper behind.
func TestLook(t *testing.T) {
	r := newRun(1, "echo never", "a", "b")
	r.req.Queue.LedgerDir = t.TempDir()
	var seen job.Snapshot
	env := reserve.Env{Connector: node.Connector{Dialer: &r.dialer, GreetTimeout: 10 * time.Second}, Signals: r.signals,
		Report: func(string) {}, OnSnapshot: func(s job.Snapshot) { seen = s }}
	snap, err := reserve.Survey(t.Context(), r.req, env)
	if err != nil || len(snap.Nodes) != 2 || snap.Nodes[1].Name != "b" || snap.Nodes[0].Topology.CountUsableCores() == 0 {
		t.Errorf("%+v, %v", snap, err)
	}
	if len(seen.Nodes) != 2 || r.out.String() != "" {
		t.Errorf("seen %d nodes, output %q", len(seen.Nodes), r.out.String())
	}
}
