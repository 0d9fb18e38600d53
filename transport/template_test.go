package transport

import (
	"strings"
	"testing"
	"time"
)

func TestShellCommand(t *testing.T) {
	at := Host{Name: "n2", User: "alice", Port: 2222, Index: 1}
	for _, c := range []struct {
		template string // words divided by |
		args     string
		at       Host
		me       string
		want     string // words divided by |, or the error
	}{
		{"rsh", "", at, "", "rsh|n2|/bin/sh"},
		{"/opt/my rsh/rsh", "-4", at, "", "/opt/my rsh/rsh|-4|n2|/bin/sh"},
		{"rsh|-n|%h", "", at, "", "rsh|-n|n2|/bin/sh"},
		{"kubectl|exec|-i|%h|--", "--context=c", at, "", "kubectl|--context=c|exec|-i|n2|--|/bin/sh"},
		{"run|--node=%n|--as=%u:%p|100%%", "", at, "", "run|--node=1|--as=alice:2222|100%|/bin/sh"},
		{"run|-n|%h|%c", "", at, "", "run|-n|n2|/bin/sh"},
		{"run|%h|-c|%q", "", at, "", "run|n2|-c|/bin/sh"},
		{"ssh", "-v -J x", Host{Name: "n2"}, "", "ssh|-v|-J|x|-x|-T|-o|BatchMode=yes|-o|ConnectTimeout=10|n2|/bin/sh"},
		{"/usr/bin/ssh", "", at, "", "/usr/bin/ssh|-x|-T|-o|BatchMode=yes|-o|ConnectTimeout=10|-l|alice|-p|2222|n2|/bin/sh"},
		{"ssh|-p|%p|%u@%h", "", at, "", "ssh|-p|2222|alice@n2|-x|-T|-o|BatchMode=yes|-o|ConnectTimeout=10|/bin/sh"},
		{"ssh|%h|--", "", at, "", "ssh|n2|--|/bin/sh"},
		{"rsh|%p", "", Host{Name: "n2"}, "", "rsh|22|/bin/sh"},
		{"rsh|%u", "", Host{Name: "n2"}, "bob", "rsh|bob|/bin/sh"},
		{"ssh", "", Host{Name: "n2"}, "bob", "ssh|-x|-T|-o|BatchMode=yes|-o|ConnectTimeout=10|n2|/bin/sh"},
		{"rsh", "", Host{Name: "label", Alias: "n2"}, "", "rsh|n2|/bin/sh"},
		{"rsh|%h", "", Host{Name: "label", Alias: "n2", Address: "10.0.0.2"}, "", "rsh|10.0.0.2|/bin/sh"},
		{"rsh|%u", "", Host{Name: "n2"}, "", "error: the value of %u is not known"},
		{"rsh|%x", "", at, "", "error: %x is not known"},
		{"rsh|%", "", at, "", "error: single %"},
	} {
		got, err := ShellCommand(strings.Split(c.template, "|"), strings.Fields(c.args), c.at, c.me, 10*time.Second)
		if want, isError := strings.CutPrefix(c.want, "error: "); isError {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %q, %v; want an error with %q", c.template, got, err, want)
			}
			continue
		}
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%q %s:\n got %s, %v\nwant %s", c.template, c.args, strings.Join(got, "|"), err, c.want)
		}
	}
}

func TestShellCommandOfNothing(t *testing.T) {
	if _, err := ShellCommand(nil, nil, Host{}, "", 0); err == nil {
		t.Error("no error")
	}
}
