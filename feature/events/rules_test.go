package events

import (
	"testing"

	"remshell/launch/node/nodetest"
	"remshell/wire"
)

// Notify comes while ranks run, of an own rank.
func TestNotifyByStage(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "Notify",
		//       connected greeted asked prepared running ending  over    left
		Stages: "early     foreign early early    ok      dropped dropped dropped", Again: "ID 1", Foreign: "foreign"})
}

// Events come from ranks of the node, go to valid members, and have a limit on how many are unanswered.
func TestNotifiesAreChecked(t *testing.T) {
	notify := func(id, rank int, to string) wire.Message {
		return &Notify{ID: id, Group: "g", Rank: rank, Code: -5, To: to}
	}
	for name, test := range map[string]struct {
		m    wire.Message
		want string
	}{
		"its own":                {notify(1, nodetest.Own, "g[0-2],h"), "ok"},
		"another's":              {notify(1, nodetest.Foreign, ""), "foreign"},
		"of a rank that is none": {notify(1, 8, ""), "foreign"},
		"to what is no list":     {notify(1, nodetest.Own, "g["), "number of ranks that get the event 2"},
		"without a number":       {notify(0, nodetest.Own, ""), "ID 0"},
	} {
		g, _ := nodetest.NewStage(t, "running")
		if got := nodetest.Judge(g, test.m); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	g, _ := nodetest.NewStage(t, "running")
	for id := range maxUnanswered {
		if got := nodetest.Judge(g, notify(id+1, nodetest.Own, "")); got != "ok" {
			t.Fatalf("event %d: %s", id, got)
		}
	}
	g.NoteSent(&Notified{ID: 1})
	if got := nodetest.Judge(g, notify(maxUnanswered+1, nodetest.Own, "")); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := nodetest.Judge(g, notify(maxUnanswered+2, nodetest.Own, "")); got != "the host sent 65 events at once" {
		t.Errorf("one too many: %s", got)
	}
}
