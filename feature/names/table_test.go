package names

import (
	"fmt"
	"testing"

	"remshell/launch"
)

// A node that waits for a name is told once, and asks again. The first lookup takes a name that can
// be read once (PMIX-40, PMIX-41).
func TestNamesThatAreAwaited(t *testing.T) {
	var s table
	one, two := new(launch.Node), new(launch.Node)
	for _, step := range []struct {
		from *launch.Node
		m    NameRequest
		want string // the reply, and how many nodes are told
	}{
		{one, NameRequest{Op: LookupWait, Service: "x"}, "false 0"},
		{one, NameRequest{Op: LookupWait, Service: "x"}, "false 0"},
		{two, NameRequest{Op: LookupWait, Service: "x"}, "false 0"},
		{two, NameRequest{Op: Publish, Service: "y", Value: []byte("v")}, "true 0"},
		{two, NameRequest{Op: Publish, Service: "x", Port: "p", Value: []byte("v"), FirstReadOnly: true}, "true 2"},
		{one, NameRequest{Op: Publish, Service: "x", Value: []byte("other")}, "false 0"},
		{one, NameRequest{Op: LookupWait, Service: "x"}, "true p v 0"},
		{two, NameRequest{Op: LookupWait, Service: "x"}, "false 0"},
		{one, NameRequest{Op: Lookup, Service: "x"}, "false 0"},
		{one, NameRequest{Op: Publish, Service: "x", Port: "q"}, "true 1"},
		{two, NameRequest{Op: Lookup, Service: "x"}, "true q 0"},
		{two, NameRequest{Op: Lookup, Service: "x"}, "true q 0"},
		{two, NameRequest{Op: Unpublish, Service: "x"}, "true 0"},
		{one, NameRequest{Op: Lookup, Service: "x"}, "false 0"},
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
	var s table
	greedy, modest := new(launch.Node), new(launch.Node)
	for i := range maxNameWaits {
		if answer, _ := s.reply(greedy, &NameRequest{Op: LookupWait, Service: fmt.Sprint(i)}); answer.Err != "" {
			t.Fatal(answer.Err)
		}
	}
	for n, want := range map[*launch.Node]string{greedy: errNameWaits.Error(), modest: ""} {
		if answer, _ := s.reply(n, &NameRequest{Op: LookupWait, Service: "more"}); answer.Err != want {
			t.Errorf("%q, want %q", answer.Err, want)
		}
	}
	s.reply(modest, &NameRequest{Op: Publish, Service: "7", Port: "p"})
	if answer, _ := s.reply(greedy, &NameRequest{Op: LookupWait, Service: "more"}); answer.Err != "" {
		t.Errorf("behind one that was published: %q", answer.Err)
	}
}
