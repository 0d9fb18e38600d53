package helptexts

import (
	"testing"

	"remshell/launch/node/nodetest"
)

// ShowHelp comes from a rank of the node that was started, until the node is drained.
func TestShowHelpByStage(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "ShowHelp",
		//       connected greeted asked prepared running ending over    left
		Stages: "early     foreign early early    ok      ok     dropped dropped", Again: "ID 1", Foreign: "foreign"})
}

// At most maxUnanswered help texts may be open at once, in ascending order of their IDs.
func TestShowHelpsAreBounded(t *testing.T) {
	v, _ := nodetest.NewStage(t, "running")
	for id := range maxUnanswered {
		if got := nodetest.Judge(v, &ShowHelp{ID: id + 1, Rank: nodetest.Own}); got != "ok" {
			t.Fatalf("text %d: %s", id, got)
		}
	}
	v.NoteSent(&ShowHelpReply{ID: 1})
	if got := nodetest.Judge(v, &ShowHelp{ID: maxUnanswered + 1, Rank: nodetest.Own}); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := nodetest.Judge(v, &ShowHelp{ID: maxUnanswered + 2, Rank: nodetest.Own}); got != "the host sent 65 requests at once" {
		t.Errorf("one too many: %s", got)
	}
}
