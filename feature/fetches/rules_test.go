package fetches

import (
	"testing"

	"remshell/launch/node/nodetest"
	"remshell/wire"
)

// Fetch comes while ranks run. Fetched is the reply to a Fetch of mpiexec.
func TestFetchesByStage(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "Fetch", Stages: "early early early early ok dropped dropped dropped", Again: "ID 1"})
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "Fetched", Request: &Fetch{ID: 1}, Stages: "early ok ok ok ok ok ok dropped", Again: "unasked"})
}

// A helper requests data of other nodes' ranks only, with a limit on open requests. It replies once to each
// request, and cannot reply for ranks of others.
func TestAdmitFetches(t *testing.T) {
	want := func(id, rank int) wire.Message { return &Fetch{ID: id, Group: "g", Rank: rank} }
	for name, test := range map[string]struct {
		m    wire.Message
		want string
	}{
		"a rank of another node":   {want(1, nodetest.Foreign), "ok"},
		"a rank of its own":        {want(1, nodetest.Own), "rank 4"},
		"a rank that is none":      {want(1, 8), "foreign"},
		"no number":                {want(0, nodetest.Foreign), "ID 0"},
		"a group elsewhere":        {&Fetch{ID: 1, Group: "h"}, "ok"},
		"an answer":                {&Fetched{ID: 7, Found: true}, "ok"},
		"an answer to another one": {&Fetched{ID: 8, Found: true}, "unasked"},
	} {
		g, _ := nodetest.NewStage(t, "running")
		g.NoteSent(&Fetch{ID: 7, Group: "g", Rank: nodetest.Own})
		if got := nodetest.Judge(g, test.m); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	g, _ := nodetest.NewStage(t, "running")
	for id := range maxUnanswered {
		if got := nodetest.Judge(g, want(id+1, nodetest.Foreign)); got != "ok" {
			t.Fatalf("fetch %d: %s", id, got)
		}
	}
	g.NoteSent(&Fetched{ID: 1})
	if got := nodetest.Judge(g, want(maxUnanswered+1, nodetest.Foreign)); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := nodetest.Judge(g, want(maxUnanswered+2, nodetest.Foreign)); got != "the host sent 4097 Fetches at once" {
		t.Errorf("one too many: %s", got)
	}
}
