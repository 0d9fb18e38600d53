package node

import (
	"testing"

	"remshell/job"
	"remshell/wire"
)

// Events are told by ranks of the node, to members that can be, and so many at once.
func TestAdmitNotices(t *testing.T) {
	tells := func(id, rank int, to string) wire.Message {
		return &wire.Notify{ID: id, Group: "g", Rank: rank, Code: -5, To: to}
	}
	for what, test := range map[string]struct {
		m    wire.Message
		want string
	}{
		"its own":                {tells(1, own, "g[0-2],h"), "ok"},
		"another's":              {tells(1, foreign, ""), "stranger"},
		"of a rank that is none": {tells(1, 8, ""), "stranger"},
		"to what is no list":     {tells(1, own, "g["), "list of members 2"},
		"without a number":       {tells(0, own, ""), "ID 0"},
	} {
		g, _ := newStage(t, "running")
		if got := judged(g, test.m); got != test.want {
			t.Errorf("%s: %s, want %s", what, got, test.want)
		}
	}
	g, _ := newStage(t, "running")
	for id := range maxNotices {
		if got := judged(g, tells(id+1, own, "")); got != "ok" {
			t.Fatalf("event %d: %s", id, got)
		}
	}
	g.noteSent(&wire.Notified{ID: 1})
	if got := judged(g, tells(maxNotices+1, own, "")); got != "ok" {
		t.Errorf("one more than is answered: %s", got)
	}
	if got := judged(g, tells(maxNotices+2, own, "")); got != "it sent 65 events at once" {
		t.Errorf("one too many: %s", got)
	}
}

// So many texts may be asked about at once, in the order of their numbers.
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

// Directories stay where they are to, and nowhere else.
func TestAdmitDirectoriesThatStay(t *testing.T) {
	g, _ := newStage(t, "ending")
	hear := func(m wire.Message) string { return judged(g, m) }
	hear(&wire.Exited{Exit: job.Exit{Rank: own}})
	if got := hear(&wire.Drained{KeptSessions: []string{"/tmp/rs"}}); got != "unasked" {
		t.Error(got)
	}
	g.sessions = true // as Prepare says
	if got := hear(&wire.Drained{KeptSessions: []string{"/tmp/rs"}}); got == "unasked" {
		t.Error(got)
	}
}
