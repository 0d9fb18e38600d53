package spawn

import (
	"testing"

	"remshell/job"
	"remshell/launch/node/nodetest"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// Spawn comes while ranks run, of an own rank.
func TestSpawnByStage(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "Spawn",
		//       connected greeted asked prepared running ending  over    left
		Stages: "early     foreign early early    ok      dropped dropped dropped", Again: "ID 1", Foreign: "foreign"})
}

// A Spawn is of a rank of the node that runs or has run. That of a rank that has ended is dropped. Spawns count among the
// requests of a node's ranks: of these, 64 may be open.
func TestSpawnsAreChecked(t *testing.T) {
	of := func(id int, group string, rank int) wire.Message {
		return &Spawn{ID: id, Request: spawn.Request{Group: group, Rank: rank}}
	}
	v, _ := nodetest.NewStage(t, "running")
	for _, step := range []struct {
		m    wire.Message
		want string
	}{
		{of(1, "h", nodetest.Own), "foreign"},
		{of(1, "g", -5), "foreign"},
		{of(1, "g", nodetest.Later), "early"},
		{&wire.Started{Rank: nodetest.Later, Err: "no"}, "ok"},
		{of(1, "g", nodetest.Later), "ended"},
		{of(0, "g", nodetest.Own), "ID 0"},
	} {
		if got := nodetest.Judge(v, step.m); got != step.want {
			t.Errorf("%+v: %s, want %s", step.m, got, step.want)
		}
	}
	for id := range 64 {
		if got := nodetest.Judge(v, of(id+1, "g", nodetest.Own)); got != "ok" {
			t.Fatalf("spawn %d: %s", id, got)
		}
	}
	v.NoteSent(&Spawned{ID: 1})
	if got := nodetest.Judge(v, &wire.RankMapRequest{ID: 65, Group: "g"}); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := nodetest.Judge(v, of(66, "g", nodetest.Own)); got != "the host sent 65 requests at once" {
		t.Errorf("one too many: %s", got)
	}
	v.NoteSent(&Spawned{ID: 2})
	nodetest.Judge(v, &wire.Exited{Exit: job.Exit{Rank: nodetest.Own}})
	for id := range 65 { // they are answered by nobody, and do not count
		if got := nodetest.Judge(v, of(67+id, "g", nodetest.Own)); got != "dropped" {
			t.Errorf("of a rank that has ended: %s", got)
		}
	}
}
