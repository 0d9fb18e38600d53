package sshx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// config reads a configuration file with this text.
func (p *testHome) config(text string) *Config {
	p.t.Helper()
	c, err := ReadConfig(p.write(".ssh/config", text), "", p.me())
	check(p.t, err)
	return c
}

func TestResolveJumps(t *testing.T) {
	p := newTestHome(t)
	c := p.config(`
Host target
    ProxyJump a,bob@b:2222
Host a
    ProxyJump outer
Host b
    ProxyJump not-used-since-a-leads-there
    HostName b.example.org
Host x
    ProxyJump y
Host y
    ProxyJump x
Host behind-proxy
    ProxyJump proxied
Host proxied
    ProxyCommand nc %h %p
Host *.all
    ProxyJump gate.all
`)
	tests := []struct{ alias, want string }{
		{"target", "outer:22 a:22 bob@b.example.org:2222"},
		{"behind-proxy", "proxied:22(nc %h %p)"},
		{"n.all", "gate.all:22"},
		{"gate.all", ""},
		{"x", "error: .ssh/config:12: ProxyJump: jump hosts form a loop: x > y > x"},
	}
	for _, tt := range tests {
		target, err := c.Resolve(context.Background(), tt.alias, p.me(), nowhere)
		var got []string
		for _, h := range target.Via {
			s := fmt.Sprintf("%s:%d", h.HostName, h.Port)
			if h.User != "alice" {
				s = h.User + "@" + s
			}
			if h.ProxyCommand != "" {
				s += "(" + h.ProxyCommand + ")"
			}
			got = append(got, s)
		}
		if err != nil {
			got = []string{"error: " + strings.ReplaceAll(errors.Unwrap(err).Error(), p.home+"/", "")}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.alias, got, tt.want)
		}
	}
}

func TestResolveTokensAndPaths(t *testing.T) {
	p := newTestHome(t)
	c := p.config(`
Host n1
    HostName n1.example.org
    User bob
    Port 99
    IdentityFile ~/%n/%h/%p/%r/%u/%i/%d/%%/%L/%l/${KEYS}/k
    IdentityAgent ~/agent
Host n2
    IdentityFile none
    IdentityAgent none
    UserKnownHostsFile none
Host n3
    IdentityAgent $OTHER_SOCK
Host n4
    IdentityFile ~/%Q
Host n5
    IdentityFile ${NOT_SET}/k
Host n6
    Tag blue
Match tagged red,blue
    IdentityAgent ~/blue
`)
	me := p.me("KEYS=mine", "SSH_AUTH_SOCK=/run/sock", "OTHER_SOCK=/run/other")
	get := func(alias string) Target {
		t.Helper()
		target, err := c.Resolve(context.Background(), alias, me, nowhere)
		check(t, err)
		return target
	}
	want := fmt.Sprintf("%s/n1/n1.example.org/99/bob/alice/%d/%s/%%/here/here.example.org/mine/k", p.home, me.UID, p.home)
	if got := get("n1"); len(got.Identities) != 1 || got.Identities[0] != filepath.Clean(want) || got.Agent != p.home+"/agent" {
		t.Errorf("n1: %q, want %q; agent %q", got.Identities, want, got.Agent)
	}
	if got := get("n2"); got.Identities == nil || len(got.Identities) != 0 || got.Agent != "" || got.UserKnownHosts != nil {
		t.Errorf("n2: %q %q %q", got.Identities, got.Agent, got.UserKnownHosts)
	}
	if got := get("n3").Agent; got != "/run/other" {
		t.Errorf("n3: agent %q", got)
	}
	if got := get("other").Agent; got != "/run/sock" {
		t.Errorf("other: agent %q", got)
	}
	if got := get("n6").Agent; got != p.home+"/blue" {
		t.Errorf("n6: agent %q", got)
	}
	for alias, want := range map[string]string{"n4": "unknown token %Q", "n5": "${NOT_SET} is not set"} {
		if _, err := c.Resolve(context.Background(), alias, me, nowhere); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", alias, err, want)
		}
	}
}

// Unsupported settings matter only for the hosts they apply to.
func TestResolveRefuses(t *testing.T) {
	p := newTestHome(t)
	c := p.config(`Host pkcs
    PKCS11Provider /usr/lib/opensc.so
Host fdpass
    ProxyUseFdpass yes
Host gss
    PreferredAuthentications gssapi-with-mic,password
Host nokey
    PubkeyAuthentication no
Host canon
    CanonicalizeHostname sometimes
Match originalhost exec exec "signal"
    User bob
Match originalhost net localnetwork 10.0.0.0/8
    User bob
Host port
    Port http
Host kex
    KexAlgorithms sntrup761x25519-sha512@openssh.com
Match originalhost odd moonphase full
    User bob
Host fine
    GSSAPIAuthentication yes
    PKCS11Provider none
    Ciphers -*cbc
`)
	tests := []struct{ alias, where, hint string }{
		{"pkcs", ":2: PKCS11Provider: the built-in ssh does not support this value", "-launcher-exec ssh"},
		{"fdpass", ":4: ProxyUseFdpass: the built-in ssh does not support this value", "-launcher-exec ssh"},
		{"gss", ":6: PreferredAuthentications: ", "-launcher-exec ssh"},
		{"nokey", ":8: PubkeyAuthentication: ", "-launcher-exec ssh"},
		{"canon", ":10: CanonicalizeHostname: ", ""},
		{"exec", `:11: Match exec: "signal": killed by signal KILL`, "run the command by hand: signal"},
		{"net", ":13: Match localnetwork is not supported", "-launcher-exec ssh"},
		{"port", `:16: Port: "http" is not a number from 1 to 65535`, ""},
		{"kex", ":18: KexAlgorithms: the built-in ssh supports none of these", "-launcher-exec ssh"},
		{"odd", `:19: unknown criterion "moonphase"`, ""},
		{"fine", "", ""},
	}
	for _, tt := range tests {
		_, err := c.Resolve(context.Background(), tt.alias, p.me(), &answers{exec: map[string]error{"signal": &ExitError{Signal: "KILL"}}})
		var e *DialError
		switch {
		case tt.where == "" && err == nil:
		case !errors.As(err, &e):
			t.Errorf("%s: %v", tt.alias, err)
		default:
			p.want(e, KindConfig, tt.alias+": config: "+p.home+"/.ssh/config"+tt.where, tt.hint)
		}
	}
}

func TestReadConfigErrors(t *testing.T) {
	p := newTestHome(t)
	read := func(text string) error {
		_, err := ReadConfig(p.write(".ssh/config", text), "/nonexistent", p.me())
		return err
	}
	p.write(".ssh/bad.inc", "Host a\n  Port\n")
	p.write(".ssh/loop.inc", "Include loop.inc\n")
	for text, want := range map[string]string{
		"Host a\n  User \"bob\n":       ".ssh/config:2: User: unbalanced quote",
		"\nHost\n":                     ".ssh/config:2: Host: a pattern is missing",
		"Match\n":                      ".ssh/config:1: Match: a criterion is missing",
		"Host a\n\nInclude bad.inc\n":  ".ssh/bad.inc:2: Port: value missing",
		"Include loop.inc\n":           "Include: the files are nested too deeply",
		"Include ~no-such-user/x\n":    "", // as in ssh
		"Include ~games/no-such-file":  "",
		"IdentityFile\n":               ".ssh/config:1: IdentityFile: value missing",
		"Host a b # c\n  Port 1 # d\n": "",
		"":                             "",
	} {
		err := read(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// A file that others can write is refused, even if the system's file includes it.
func TestReadConfigOfOthers(t *testing.T) {
	p := newTestHome(t)
	user, system := p.write(".ssh/config", "User bob\nInclude more\n"), p.write("etc/ssh_config", "Include d/*\n")
	more, included := p.write(".ssh/more", "Port 1\n"), p.write("etc/d/04-ipa.conf", "Port 2\n")
	for _, tt := range []struct {
		file    string
		mode    os.FileMode
		refused bool
	}{
		{user, 0o622, true}, {user, 0o644, false}, {more, 0o620, true}, {included, 0o664, true}, {included, 0o646, true}, {included, 0o644, false},
		{system, 0o664, false}, {system, 0o646, true},
	} {
		check(t, os.Chmod(tt.file, tt.mode))
		_, err := ReadConfig(user, system, p.me())
		check(t, os.Chmod(tt.file, 0o600))
		var e *ConfigError
		if !tt.refused {
			check(t, err)
		} else if !errors.As(err, &e) || e.File != tt.file || e.Hint() != "run: chmod go-w "+tt.file {
			t.Errorf("%s %o: %v", tt.file, tt.mode, err)
		}
	}
}

// The user's file comes before the system's, and neither has to exist.
func TestReadConfigOrder(t *testing.T) {
	p := newTestHome(t)
	userFile := p.write(".ssh/config", "Host n1\n  User mine\n")
	p.write("etc/ssh/d/x.conf", "Host *\n  Port 7\n")
	system := p.write("etc/ssh/ssh_config", "Include d/*.conf\nUser theirs\n")
	c, err := ReadConfig(userFile, system, p.me())
	check(t, err)
	for alias, want := range map[string]string{"n1": "mine:7", "n2": "theirs:7", "bob@n2": "bob:7"} {
		got, err := c.Resolve(context.Background(), alias, p.me(), nowhere)
		check(t, err)
		if s := fmt.Sprintf("%s:%d", got.User, got.Port); s != want {
			t.Errorf("%s: %s, want %s", alias, s, want)
		}
	}
	c, err = ReadConfig(p.home+"/none", "", p.me())
	check(t, err)
	got, err := c.Resolve(context.Background(), "n1", p.me(), nowhere)
	check(t, err)
	if got.HostName != "n1" || got.User != "alice" || got.Port != 22 || got.Strict != "ask" {
		t.Errorf("without files: %+v", got)
	}
}

func TestChooseAlgos(t *testing.T) {
	defaults := []string{"a", "b", "c"}
	known := []string{"a", "b", "c", "old"}
	for list, want := range map[string]string{
		"":           "",
		"c,a":        "c a",
		"+old":       "a b c old",
		"+b,nonesun": "a b c",
		"-b,x*":      "a c",
		"^c":         "c a b",
		"nonesuch":   "",
		"?":          "a b c",
	} {
		if got := strings.Join(chooseAlgos(list, defaults, known), " "); got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "1m30s": 90 * time.Second, "1H": time.Hour, "1w2d": 9 * 24 * time.Hour,
	} {
		if got, err := parseTime(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "1x", "-1", "99999999999", "s"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestWildcard(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"?", "", false}, {"n?", "n1", true}, {"n?", "n", false}, {"n*1", "n2221", true},
		{"*a*b*", "xxaxxbxx", true}, {"*a*b*", "xxbxxaxx", false}, {"n.1", "nx1", false}, {"", "", true}, {"a*", "b", false},
	} {
		if got := matchWildcard(tt.pattern, tt.s); got != tt.want {
			t.Errorf("wildcard(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
	// A naive matcher takes time exponential in the number of stars.
	if matchWildcard(strings.Repeat("a*", 30)+"b", strings.Repeat("a", 200)) {
		t.Error("matched")
	}
}
