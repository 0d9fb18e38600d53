package request

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"remshell/cli/option"
	"remshell/config"
	"remshell/hostlist"
)

// Settings of the cluster file apply also to a host that -host names, by its name or an alias.
func TestListedAndConfigured(t *testing.T) {
	site, err := config.Load("f", `
[[node]]
name = "n[1-2]"
aliases = ["n[1-2].example.org"]
maxproc = 3
[[node]]
name = "me"
address = "127.0.0.1"
[[node]]
name = "far"
address = "192.0.2.7"
`, config.IDs{})
	if err != nil {
		t.Fatal(err)
	}
	w := Inputs{Cluster: site, Local: Localhost{Names: []string{"head"}, Addrs: func() []netip.Addr { return nil }}}
	for _, test := range []struct{ list, want string }{
		{"n1", "n1 to n1 limited"},
		{"N1.example.org", "N1.example.org to n1 limited"},
		{"n1:1::10.0.0.1", "n1 to n1 at 10.0.0.1 limited"},
		{"other", "other to other"},
		{"head", "head to head local"},
		{"me", "me to me at 127.0.0.1 local"},
		{"me:1:alice", "me to me at 127.0.0.1"},
		{"far", "far to far at 192.0.2.7"},
		{"far:1::127.0.0.1", "far to far at 127.0.0.1 local"},
	} {
		entries, err := hostlist.Parse("-host", test.list)
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := w.candidatesOf(entries, option.JobOptions{})
		if err != nil {
			t.Fatal(err)
		}
		def := nodes[0]
		got := fmt.Sprintf("%s to %s", def.Name, def.Host)
		for _, trait := range []struct {
			on   bool
			text string
		}{{def.Address != "", "at " + def.Address}, {def.MaxProcs != nil, "limited"}, {def.Local, "local"}} {
			if trait.on {
				got += " " + trait.text
			}
		}
		if strings.TrimSpace(got) != test.want {
			t.Errorf("%s: %s; want %s", test.list, got, test.want)
		}
	}
}
