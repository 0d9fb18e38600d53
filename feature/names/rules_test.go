package names

import (
	"testing"

	"remshell/launch/node/nodetest"
	"remshell/wire"
)

// NameRequest comes while ranks run.
func TestNameRequestByStage(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "NameRequest",
		//       connected greeted asked prepared running ending  over    left
		Stages: "early     early   early early    ok      dropped dropped dropped", Again: "ID 1"})
}

// NameRequests count among the requests of a node's ranks: of these, 64 may be open, and their IDs ascend.
func TestNameRequestsAreBounded(t *testing.T) {
	v, _ := nodetest.NewStage(t, "running")
	if got := nodetest.Judge(v, &NameRequest{}); got != "ID 0" {
		t.Errorf("no ID: %s", got)
	}
	for id := range 64 {
		if got := nodetest.Judge(v, &NameRequest{ID: id + 1, Op: Lookup}); got != "ok" {
			t.Fatalf("request %d: %s", id, got)
		}
	}
	v.NoteSent(&NameReply{ID: 1})
	if got := nodetest.Judge(v, &wire.RankMapRequest{ID: 65, Group: "g"}); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := nodetest.Judge(v, &NameRequest{ID: 66, Op: Lookup}); got != "the host sent 65 requests at once" {
		t.Errorf("one too many: %s", got)
	}
}
