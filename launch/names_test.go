package launch

import (
	"fmt"
	"testing"

	"remshell/wire"
)

// A node that waits for a name is told once, and asks again. The first lookup takes a name that can
// be read once (PMIX-40, PMIX-41).
func TestNamesThatAreAwaited(t *testing.T) {
	var s nameService
	one, two := new(Node), new(Node)
	for _, step := range []struct {
		from *Node
		m    wire.NameRequest
		want string // the reply, and how many nodes are told
	}{
		{one, wire.NameRequest{Op: wire.LookupWait, Service: "x"}, "false 0"},
		{one, wire.NameRequest{Op: wire.LookupWait, Service: "x"}, "false 0"},
		{two, wire.NameRequest{Op: wire.LookupWait, Service: "x"}, "false 0"},
		{two, wire.NameRequest{Op: wire.Publish, Service: "y", Value: []byte("v")}, "true 0"},
		{two, wire.NameRequest{Op: wire.Publish, Service: "x", Port: "p", Value: []byte("v"), FirstReadOnly: true}, "true 2"},
		{one, wire.NameRequest{Op: wire.Publish, Service: "x", Value: []byte("other")}, "false 0"},
		{one, wire.NameRequest{Op: wire.LookupWait, Service: "x"}, "true p v 0"},
		{two, wire.NameRequest{Op: wire.LookupWait, Service: "x"}, "false 0"},
		{one, wire.NameRequest{Op: wire.Lookup, Service: "x"}, "false 0"},
		{one, wire.NameRequest{Op: wire.Publish, Service: "x", Port: "q"}, "true 1"},
		{two, wire.NameRequest{Op: wire.Lookup, Service: "x"}, "true q 0"},
		{two, wire.NameRequest{Op: wire.Lookup, Service: "x"}, "true q 0"},
		{two, wire.NameRequest{Op: wire.Unpublish, Service: "x"}, "true 0"},
		{one, wire.NameRequest{Op: wire.Lookup, Service: "x"}, "false 0"},
	} {
		answer, news := s.reply(step.from, &step.m)
		got := fmt.Sprint(answer.OK)
		for _, text := range []string{answer.Port, string(answer.Value), fmt.Sprint(len(news))} {
			if text != "" {
				got += " " + text
			}
		}
		if got != step.want || answer.Err != "" {
			t.Errorf("%+v: %s, %s; want %s", step.m, got, answer.Err, step.want)
		}
	}
}

// A node cannot fill our memory with names that it waits for.
func TestAwaitedNamesAreBounded(t *testing.T) {
	var s nameService
	greedy, modest := new(Node), new(Node)
	for i := range maxNameWaits {
		if answer, _ := s.reply(greedy, &wire.NameRequest{Op: wire.LookupWait, Service: fmt.Sprint(i)}); answer.Err != "" {
			t.Fatal(answer.Err)
		}
	}
	for n, want := range map[*Node]string{greedy: errNameWaits.Error(), modest: ""} {
		if answer, _ := s.reply(n, &wire.NameRequest{Op: wire.LookupWait, Service: "more"}); answer.Err != want {
			t.Errorf("%q, want %q", answer.Err, want)
		}
	}
	s.reply(modest, &wire.NameRequest{Op: wire.Publish, Service: "7", Port: "p"})
	if answer, _ := s.reply(greedy, &wire.NameRequest{Op: wire.LookupWait, Service: "more"}); answer.Err != "" {
		t.Errorf("behind one that was published: %q", answer.Err)
	}
}
