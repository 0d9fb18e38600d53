package node

import (
	"testing"

	"remshell/job"
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
		"its own":                {notify(1, own, "g[0-2],h"), "ok"},
		"another's":              {notify(1, foreign, ""), "foreign"},
		"of a rank that is none": {notify(1, 8, ""), "foreign"},
		"to what is no list":     {notify(1, own, "g["), "list of members 2"},
		"without a number":       {notify(0, own, ""), "ID 0"},
	} {
		g, _ := newStage(t, "running")
		if got := judged(g, test.m); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	g, _ := newStage(t, "running")
	for id := range maxNotices {
		if got := judged(g, notify(id+1, own, "")); got != "ok" {
			t.Fatalf("event %d: %s", id, got)
		}
	}
	g.noteSent(&wire.Notified{ID: 1})
	if got := judged(g, notify(maxNotices+1, own, "")); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := judged(g, notify(maxNotices+2, own, "")); got != "it sent 65 events at once" {
		t.Errorf("one too many: %s", got)
	}
}

// At most maxUnanswered help texts may be open at once, in ascending order of their IDs.
func TestAdmitTexts(t *testing.T) {
	g, _ := newStage(t, "running")
	for id := range maxUnanswered {
		if got := judged(g, &wire.ShowHelp{ID: id + 1, Rank: own}); got != "ok" {
			t.Fatalf("text %d: %s", id, got)
		}
	}
	g.noteSent(&wire.ShowHelpReply{ID: 1})
	if got := judged(g, &wire.ShowHelp{ID: maxUnanswered + 1, Rank: own}); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := judged(g, &wire.ShowHelp{ID: maxUnanswered + 2, Rank: own}); got != "it sent 65 requests at once" {
		t.Errorf("one too many: %s", got)
	}
}

// Drained may name kept session directories only if Prepare says that they are kept.
func TestAdmitDirectoriesThatStay(t *testing.T) {
	g, _ := newStage(t, "ending")
	check := func(m wire.Message) string { return judged(g, m) }
	check(&wire.Exited{Exit: job.Exit{Rank: own}})
	if got := check(&wire.Drained{KeptSessions: []string{"/tmp/rs"}}); got != "unasked" {
		t.Error(got)
	}
	g.sessions = true // as Prepare says
	if got := check(&wire.Drained{KeptSessions: []string{"/tmp/rs"}}); got == "unasked" {
		t.Error(got)
	}
}
