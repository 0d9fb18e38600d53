package sshx

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// A hostsTrial is a file setup with a KnownHostsCommand, and the result, for sshx and for ssh. In
// value, KEYS stands for a command that records its arguments and prints the lines. The lines use the
// placeholders of trials.
type hostsTrial struct {
	name   string
	value  string // value of KnownHostsCommand
	prints string
	script string // runs before the lines are printed
	known  string // lines of known_hosts
	config string // more lines of ssh_config
	want   Kind
	says   string
	hint   string
	alone  bool // ssh behaves differently
}

var hostsTrials = []hostsTrial{
	{name: "key", value: "KEYS %I", prints: "NAME KEY"},
	{name: "is asked once where the question is the same", value: "KEYS %H", prints: "NAME KEY", alone: true},
	{name: "nothing", value: "KEYS", want: KindUnknownKey, says: "the host key is unknown"},
	{name: "behind the files", value: "KEYS", known: "NAME KEY"},
	// ssh before version 10 omits the port in the call for ORDER, and reports a changed key.
	{name: "only a key of another type, which the host has", value: "KEYS", prints: "NAME RSA", alone: true},
	{name: "another key", value: "KEYS", prints: "NAME OTHER", want: KindChangedKey, says: "but output of KEYS:1 has another key"},
	{name: "revoked by the command", value: "KEYS", prints: "@revoked NAME KEY", known: "NAME KEY", want: KindRevokedKey, says: "(output of KEYS:1)"},
	{name: "hashed", value: "KEYS", prints: "HASHED KEY"},
	{name: "authority", value: "KEYS", prints: "# a comment\n\n@cert-authority * CA", config: "HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com"},
	{name: "only for the name without port", value: "KEYS", prints: "127.0.0.1 KEY", want: KindUnknownKey, says: "unknown"},
	{name: "under an alias", value: "KEYS %k", prints: "farm KEY", config: "HostKeyAlias Farm"},
	{name: "none", value: "none", known: "NAME KEY"},
	{name: "key in DNS", value: "none", config: "VerifyHostKeyDNS yes", want: KindUnknownKey, says: "the host key is unknown (", hint: "VerifyHostKeyDNS at ~/.ssh/config:2"},
	{name: "words", value: `KEYS "%h %n" '%p' %r\ %u %i %L.%l ${HOME} 100%% # %k`, prints: "NAME KEY"},
	{name: "what the server shows", value: "KEYS %I %t %f %K", prints: "NAME KEY", config: "HostKeyAlgorithms -*cert*"},
	{name: "the order is the user's", value: "KEYS %I", prints: "NAME KEY", config: "HostKeyAlgorithms ssh-ed25519"},

	{name: "fails", value: `KEYS "a b"`, script: "echo >&2 sssd is not running; exit 3", known: "NAME KEY", want: KindConfig,
		says: "host key: KnownHostsCommand of ~/.ssh/config:1 failed: exit code 3 (sssd is not running)",
		hint: "disable the command with --ssh-option KnownHostsCommand=none, or run the command by hand: KEYS 'a b'"},
	{name: "fails only with the key", value: "KEYS %I", script: `test "$1" = ORDER`, known: "NAME KEY", want: KindConfig, says: "failed: exit code 1"},
	{name: "is killed", value: "KEYS", script: "kill -9 $$", known: "NAME KEY", want: KindConfig, says: "killed by signal KILL"},
	{name: "cannot be started", value: "DIR/lines", known: "NAME KEY", want: KindConfig, says: "DIR/lines cannot be started: permission denied"},
	{name: "is not there", value: "/no/such/command %H", known: "NAME KEY"},
	{name: "is not there, and is needed", value: "/no/such/command %H", want: KindUnknownKey,
		says: "the host key is unknown; KnownHostsCommand of ~/.ssh/config:1 was not run: /no/such/command: no such file"},
	{name: "no absolute path", value: "keys %H", known: "NAME KEY"},
	{name: "no absolute path, and is needed", value: "keys %H", want: KindUnknownKey, says: "was not run: keys is not an absolute path"},
	{name: "is asked for a while", value: "KEYS", script: "sleep 1000", known: "NAME KEY", want: KindConfig, says: "the program did not end within 2 s", alone: true},
	{name: "says too much", value: "KEYS", script: "head -c 2000000 /dev/zero", known: "NAME KEY", want: KindConfig, says: "it printed more than 1024 KiB", alone: true},
}

// Each row runs against a real server, with sshx and with ssh.
func TestOpenSSHKnownHostsCommand(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.sshd([]string{"ed25519", "rsa"})
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.home+"/CA")
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.home+"/OTHER")
	p.certify(s, "-s CA -h -n 127.0.0.1 -V -1d:+1d")
	config, err := os.ReadFile(s.dir + "/config")
	check(t, err)
	check(t, os.WriteFile(s.dir+"/config", append(config, "HostCertificate "+s.dir+"/ed25519-cert.pub\n"...), 0o600))
	s = &sshd{addr: freeAddr(t), dir: s.dir}
	s.reconfigure(t)
	s.start(t)
	t.Setenv("HOME", p.home)
	for _, trial := range hostsTrials {
		t.Run(trial.name, func(t *testing.T) { trial.run(&testHome{t: t, home: p.home, key: p.key, d: &Dialer{}}, s) })
	}
}

func (trial hostsTrial) run(p *testHome, s *sshd) {
	p.t.Helper()
	host, port, _ := net.SplitHostPort(s.addr)
	fill := func(text string) string {
		text = strings.NewReplacer("KEYS", p.home+"/keys", "DIR", p.home).Replace(text)
		text = strings.ReplaceAll(text, "RSA", strings.Join(strings.Fields(p.read(strings.TrimPrefix(s.dir, p.home) + "/rsa.pub"))[:2], " "))
		text = strings.ReplaceAll(text, "OTHER", strings.Join(strings.Fields(p.read("OTHER.pub"))[:2], " "))
		return strings.TrimSpace(trials[0].fill(p, s, text))
	}
	p.write("lines", fill(trial.prints)+"\n")
	p.write("keys", fmt.Sprintf("#!/bin/sh\nprintf '[%%s]' \"$@\" >>%[1]s/log; echo >>%[1]s/log\n%[2]s\n[ $? = 0 ] && cat %[1]s/lines\n", p.home, trial.script))
	check(p.t, os.Chmod(p.home+"/keys", 0o700))
	p.write(".ssh/known_hosts", fill(trial.known)+"\n")
	path := p.write(".ssh/config", "KnownHostsCommand "+fill(trial.value)+"\n"+trial.config+
		"\nPort "+port+"\nGlobalKnownHostsFile none\nBatchMode yes\nUserKnownHostsFile ~/.ssh/known_hosts\nIdentityFile "+p.home+"/.ssh/id_ed25519\n")
	p.d.commandLimit = 5 * time.Minute
	if trial.alone {
		p.d.commandLimit = 2 * time.Second
	}
	account := p.real(s).User
	hostname, err := os.Hostname()
	check(p.t, err)
	me := User{Name: account, Home: p.home, UID: os.Getuid(), Host: hostname, Getenv: os.Getenv}
	c, err := ReadConfig(path, "", me)
	check(p.t, err)
	target, err := c.Resolve(context.Background(), host, me, nowhere)
	check(p.t, err)
	if trial.want == "" {
		p.dial(target)
	} else {
		p.want(p.refusal(target), trial.want, fill(trial.says), fill(trial.hint))
	}
	ours := p.calls()
	if trial.alone {
		return
	}
	// ssh takes the home directory from the account.
	out, err := exec.Command(tool(p.t, "ssh"), "-F", path, "-o", "UserKnownHostsFile="+p.home+"/.ssh/known_hosts", host, "true").CombinedOutput()
	if (err == nil) != (trial.want == "") {
		p.t.Errorf("ssh: %v: %s", err, out)
	}
	// ssh also runs the command again with equal arguments.
	if theirs := slices.Compact(p.calls()); !slices.Equal(ours, theirs) {
		p.t.Errorf("asked %q, ssh %q", ours, theirs)
	}
}

// calls returns the arguments of the command's calls since the last time.
func (p *testHome) calls() []string {
	data, _ := os.ReadFile(p.home + "/log")
	os.Remove(p.home + "/log")
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// A ProxyCommand may write to known_hosts before it connects, as sss_ssh_knownhostsproxy does: anew
// for each host.
func TestKnownHostsOfProxyCommand(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	self, err := os.Executable()
	check(t, err)
	t.Setenv("SSHX_TEST_PROXY", "1") // the test program is the ProxyCommand
	known := p.write("known", "")
	for range 3 {
		s := p.sshd([]string{"ed25519", "rsa"})
		lines := p.write("lines", s.known(t, "rsa"))
		target := p.real(s)
		target.UserKnownHosts, target.GlobalKnownHosts = nil, []string{known}
		target.ProxyCommand = fmt.Sprintf("sh -c 'sleep 0.1; cat %s >>%s; exec %s %%h:%%p'", lines, known, self)
		p.dial(target)
	}
}
