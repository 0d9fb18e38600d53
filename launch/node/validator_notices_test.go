package node_test

import (
	"testing"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/node/nodetest"
	"remshell/wire"
)

// Events come from ranks of the node, go to valid members, and have a limit on how many are unanswered.
func TestAdmitNotices(t *testing.T) {
	notify := func(id, rank int, to string) wire.Message {
		return &wire.Notify{ID: id, Group: "g", Rank: rank, Code: -5, To: to}
	}
	for name, test := range map[string]struct {
		m    wire.Message
		want string
	}{
		"its own":                {notify(1, nodetest.Own, "g[0-2],h"), "ok"},
		"another's":              {notify(1, nodetest.Foreign, ""), "foreign"},
		"of a rank that is none": {notify(1, 8, ""), "foreign"},
		"to what is no list":     {notify(1, nodetest.Own, "g["), "list of members 2"},
		"without a number":       {notify(0, nodetest.Own, ""), "ID 0"},
	} {
		g, _ := nodetest.NewStage(t, "running")
		if got := nodetest.Judge(g, test.m); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	g, _ := nodetest.NewStage(t, "running")
	for id := range node.MaxNotices {
		if got := nodetest.Judge(g, notify(id+1, nodetest.Own, "")); got != "ok" {
			t.Fatalf("event %d: %s", id, got)
		}
	}
	g.NoteSent(&wire.Notified{ID: 1})
	if got := nodetest.Judge(g, notify(node.MaxNotices+1, nodetest.Own, "")); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := nodetest.Judge(g, notify(node.MaxNotices+2, nodetest.Own, "")); got != "it sent 65 events at once" {
		t.Errorf("one too many: %s", got)
	}
}

// Drained may name kept session directories only if Prepare says that they are kept.
func TestAdmitDirectoriesThatStay(t *testing.T) {
	for _, keep := range []bool{false, true} {
		g, _ := nodetest.NewStage(t, "ending", func(m *wire.Prepare) { m.Supervision.KeepSessions = keep })
		nodetest.Judge(g, &wire.Exited{Exit: job.Exit{Rank: nodetest.Own}})
		if got := nodetest.Judge(g, &wire.Drained{KeptSessions: []string{"/tmp/rs"}}); (got == "unasked") == keep {
			t.Errorf("keep %v: %s", keep, got)
		}
	}
}
