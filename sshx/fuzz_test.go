package sshx

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remshell/test/sshtest"
)

// Any file gives an error, or a target whose names are harmless in a shell. Names are checked before
// commands run.
func FuzzResolve(f *testing.F) {
	files, _ := filepath.Glob("testdata/config/*.conf")
	for _, name := range files {
		data, err := os.ReadFile(name)
		check(f, err)
		f.Add(string(data), "n1")
	}
	f.Add("Match exec \"%h %n %r %%\" !final host=\"a,b\" #\nKnownHostsCommand /x '%H %I' ${HOME} %k\nHostName %h%%\n", "bob@n1")
	f.Fuzz(func(t *testing.T, text, alias string) {
		if strings.Contains(strings.ToLower(text), "include") {
			return // it may depend on files of this machine
		}
		me := User{Name: "alice", Home: "/home/alice", Host: "here.example.org", Getenv: func(name string) string { return name }}
		file, err := configReader{home: me.Home, dir: "/nowhere"}.parse("config", []byte(text), 0)
		if err != nil {
			return
		}
		c := &Config{files: []*configFile{file}, final: file.wantsFinal()}
		target, err := c.Resolve(context.Background(), alias, me, &answers{exec: map[string]error{"true": nil}, hosts: map[string]string{"n1.corp.example.": "n1.corp.example"}})
		if err != nil {
			return
		}
		if err := target.checkNames(); err != nil {
			t.Error(err)
		}
		if _, err := target.proxyCommand(); err != nil {
			t.Error(err)
		}
		for i, word := range target.KnownHostsCommand.words("ORDER", target.knownName(), nil) {
			if i > 0 && strings.Contains(word, laterToken) {
				t.Errorf("%q has a token left", word)
			}
		}
	})
}

// Whatever a command prints as lines of known_hosts, a key is accepted only if a line has it.
func FuzzKnownLines(f *testing.F) {
	key := sshtest.NewKey().PublicKey()
	for _, text := range []string{"n1 ssh-ed25519 KEY", "@revoked * ssh-ed25519 KEY\n|1|x|y a b", "@cert-authority *,!n1 ssh-ed25519 KEY", "[n1]:22,n? a KEY\r\n#\n\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := newKnownFile("output", strings.ReplaceAll(text, "KEY", keyText(key)))
		v := judgeHostKey(lookUpKnown([]*knownFile{file}, "n1"), nil, "n1", key, time.Now())
		if v.kind == "" && !strings.Contains(text, "KEY") {
			t.Errorf("a key that is in no line is good by %+v", v.line)
		}
	})
}

// An address in any form equals its usual form. Addresses that netip parses give the same result.
func FuzzParseAddress(f *testing.F) {
	for _, name := range []string{"127.1", "2130706433", "0x7f.0.0.1", "017700000001", "::1", "fe80::1%eth0", "1.2.3.256", "08.1", "0x", "1_0", "+1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		a, ok := parseAddress(name)
		if usual, err := netip.ParseAddr(name); err == nil && (!ok || a != usual) {
			t.Errorf("%q is %v, want %v", name, a, usual)
		}
		if !ok {
			return
		}
		if again, ok := parseAddress(a.String()); !ok || again != a {
			t.Errorf("%q is %v, and that %v", name, a, again)
		}
		if strings.ContainsAny(name, "_+- ") && !strings.Contains(name, "%") {
			t.Errorf("%q is an address", name)
		}
	})
}
