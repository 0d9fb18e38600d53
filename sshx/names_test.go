package sshx

import (
	"context"
	"errors"
	"os"
	"testing"
)

// This package itself refuses names that a shell or a program would misread, before it starts a
// ProxyCommand with them (TRUST-23).
func TestNamesAreNoCommands(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	mark := p.home + "/ran"
	me := User{Name: "me", Home: p.home, Getenv: func(string) string { return "" }}
	config, err := ReadConfig(p.write(".ssh/config", "ProxyCommand touch "+mark+"; echo %h %n %r\n"), "/dev/null", me)
	check(t, err)
	refused := func(err error, what, name string) {
		t.Helper()
		var e *DialError
		if !errors.As(err, &e) || e.Kind != KindConfig {
			t.Errorf("%s %q: %v", what, name, err)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Fatalf("%s %q: the ProxyCommand ran", what, name)
		}
	}
	for _, name := range []string{
		"$(id)", "-oX", "a b", "x#y", "a;b", "a&b", "a|b", "`id`", "a'b", `a"b`, `a\b`, "a>b", "a\nb", "a\tb", "a\x1b[2Jb", "a\u202eb", "a\xff", "~root", "a*", "{a,b}", "!x",
	} {
		_, err := config.Resolve(context.Background(), name, me, nowhere)
		refused(err, "alias", name)
		_, err = config.Resolve(context.Background(), name+"@n1", me, nowhere)
		refused(err, "user before the alias", name)
		for what, target := range map[string]Target{
			"alias": {Alias: name, HostName: "n1"}, "host": {Alias: "n1", HostName: name}, "user": {Alias: "n1", User: name},
			"jump host": {Alias: "n1", Via: []Target{{Alias: "n2", HostName: name}}},
		} {
			target.ProxyCommand = "touch " + mark + "; echo %h %n %r"
			_, err = p.d.Dial(context.Background(), target)
			refused(err, what, name)
		}
	}
	for _, name := range []string{"n1", "node-1.example.org", "fe80::1%eth0", "größe", "me@DOMAIN"} {
		if err := checkName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	target, err := config.Resolve(context.Background(), "n1", me, nowhere)
	check(t, err)
	if _, err := p.d.Dial(context.Background(), target); err == nil {
		t.Error("connected")
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("the ProxyCommand of a harmless name did not run: this test shows nothing")
	}
}
