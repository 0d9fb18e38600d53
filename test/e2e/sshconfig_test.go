//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// ipaFile is what ipa-client-install of FreeIPA 4.12 writes as /etc/ssh/ssh_config.d/04-ipa.conf: its template for a client
// whose SSSD has sss_ssh_knownhosts.
const ipaFile = `# IPA-related configuration changes to ssh_config
#
PubkeyAuthentication yes
#GlobalKnownHostsFile /var/lib/sss/pubconf/known_hosts
#VerifyHostKeyDNS yes

# use sss_ssh_knownhosts if available
# assumes that if a user does not have shell (/sbin/nologin),
# this will return nonzero exit code and proxy command will be ignored
Match exec true
	KnownHostsCommand /usr/bin/sss_ssh_knownhosts %H

# assumes that if a user does not have shell (/sbin/nologin),
# this will return nonzero exit code and proxy command will be ignored
#Match exec true
#	ProxyCommand /usr/bin/sss_ssh_knownhostsproxy -p %p %h
`

// ipaProxyFile is what it writes for an older SSSD, and what all earlier versions write, with --ssh-trust-dns.
const ipaProxyFile = `# IPA-related configuration changes to ssh_config
#
PubkeyAuthentication yes
GlobalKnownHostsFile /var/lib/sss/pubconf/known_hosts
VerifyHostKeyDNS yes

# assumes that if a user does not have shell (/sbin/nologin),
# this will return nonzero exit code and proxy command will be ignored
Match exec true   
	ProxyCommand /usr/bin/sss_ssh_knownhostsproxy -p %p %h
`

// ipaPrograms are SSSD's two, as far as ssh sees them: keys by a host's name, and a connection behind which the key stands in
// a file. Both note each call.
var ipaPrograms = map[string]string{
	"sss_ssh_knownhosts": `#!/bin/sh
echo "$1" >>/var/lib/sss/pubconf/calls
test -e /var/lib/sss/pubconf/down && { echo >&2 "sssd is not running"; exit 1; }
exec sed -n "s/^$1 /&/p" /var/lib/sss/keys
`,
	"sss_ssh_knownhostsproxy": `#!/bin/bash
echo "$3" >>/var/lib/sss/pubconf/calls
sed -n "s/^$3 /&/p" /var/lib/sss/keys >>/var/lib/sss/pubconf/known_hosts
exec 3<>"/dev/tcp/$3/$2"
cat <&3 &
exec cat >&3
`,
}

// ipaClient makes the head a client of FreeIPA that knows the keys of all hosts, of which the user's known_hosts has none.
func (b *testCluster) ipaClient(t *testing.T, file string) {
	t.Helper()
	b.requireNamespaces(t)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range ipaPrograms {
		write("bin/"+name, text, 0o755)
	}
	var keys strings.Builder
	for _, h := range b.Hosts {
		fmt.Fprintf(&keys, "%s %s\n", h.Name, h.Key)
	}
	write("lib/sss/keys", keys.String(), 0o644)
	write("lib/sss/pubconf/nothing", "", 0o644)
	write("ssh/ssh_config", "Include /etc/ssh/ssh_config.d/*.conf\nHost *\n    SendEnv LANG LC_*\n    HashKnownHosts yes\n    GSSAPIAuthentication yes\n", 0o644)
	write("ssh/ssh_config.d/04-ipa.conf", file, 0o644)
	b.runOn(t, testbed.Head, "sh", "-ec", `mount --bind "$1/ssh" /etc/ssh
mount -t overlay -o "lowerdir=$1/bin:/usr/bin" field /usr/bin
mount -t overlay -o "lowerdir=$1/lib:/var/lib" field /var/lib
mount -t tmpfs field /var/lib/sss/pubconf`, "sh", dir)
	b.sshFile(t, "known_hosts", func(string) string { return "" })
}

// ipaCalls are the hosts that SSSD's programs were asked about since the last time.
func (b *testCluster) ipaCalls(t *testing.T) string {
	t.Helper()
	return b.runOn(t, testbed.Head, "sh", "-c", "cd /var/lib/sss/pubconf; sort calls; rm calls")
}

// A first job on a client of FreeIPA, whose file made every host fail.
func TestFreeIPA(t *testing.T) {
	for name, file := range map[string]string{"KnownHostsCommand": ipaFile, "ProxyCommand": ipaProxyFile} {
		t.Run(name, func(t *testing.T) {
			b := newTestCluster(t, testbed.Options{Hosts: 3})
			b.ipaClient(t, file)
			for _, way := range transports() {
				b.runMpiexec(t, append(way, "-hosts", "n1:1,n2:1,n3:1", "-n", "3", "echo", "ran")...).checkOutput(t, b, []string{"ran", "ran", "ran"})
				calls := b.ipaCalls(t)
				if way == nil && calls != "n1\nn2\nn3" { // ssh asks twice where the question is the same
					t.Errorf("asked about %q", calls)
				}
			}
		})
	}
}

// What goes wrong with FreeIPA's commands names the line that runs them, for many hosts once.
func TestFreeIPAFails(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.ipaClient(t, ipaFile)
	job := mpiexecCall{args: []string{"-hosts", "n1:1,n2:1", "-n", "2", "true"}}
	b.runOn(t, testbed.Head, "touch", "/var/lib/sss/pubconf/down")
	r := b.checkRefused(t, job, 125, "n[1-2]: host key: KnownHostsCommand of /etc/ssh/ssh_config.d/04-ipa.conf:11 failed: exit code 1 (sssd is not running)",
		"run the command by hand: /usr/bin/sss_ssh_knownhosts n1", "--ssh-option KnownHostsCommand=none")
	t.Log(r.err)
	job.args = append([]string{"--ssh-option", "KnownHostsCommand=none"}, job.args...)
	r = b.checkRefused(t, job, 125, "n[1-2]: host key: the host key is unknown", "--accept-new-host-keys")
	t.Log(r.err)

	job.args = job.args[2:]
	b.runOn(t, testbed.Head, "sh", "-c", "mount -t tmpfs field /etc/ssh/ssh_config.d; printf 'Match exec \"sleep 1000\"\n\tPort 22\n' >/etc/ssh/ssh_config.d/1.conf")
	r = b.checkRefused(t, job, 125, `n[1-2]: config: /etc/ssh/ssh_config.d/1.conf:1: Match exec: "sleep 1000": the program did not end within 10 s`, "run the command by hand: sleep 1000")
	t.Log(r.err)
	b.runOn(t, testbed.Head, "chmod", "666", "/etc/ssh/ssh_config.d/1.conf")
	r = b.checkRefused(t, job, 125, "n[1-2]: ", "/etc/ssh/ssh_config.d/1.conf: other users can write to it", "run: chmod go-w /etc/ssh/ssh_config.d/1.conf")
	t.Log(r.err)
}

// A site's file that looks names up in its domain, and asks by a command who is in which network.
func TestCanonicalNamesAndMatchExec(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.sshConfig(t, "CanonicalizeHostname yes\nCanonicalDomains cluster.example\n"+
		"Match exec \"test %h = n1\"\n\tServerAliveInterval 60\nMatch exec \"test -e /no/such/network\"\n\tProxyJump gate\nMatch all\n")
	for _, way := range transports() {
		b.runMpiexec(t, append(way, "-hosts", "n1:1,n2:1", "-n", "2", "echo", "ran")...).checkOutput(t, b, []string{"ran", "ran"})
	}
}

// A command of Match exec does not outlive mpiexec.
func TestMatchExecEndsWithMpiexec(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			b := newTestCluster(t, testbed.Options{Hosts: 1})
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			b.sshConfig(t, fmt.Sprintf("Match exec \"exec >%s; echo begun; exec sleep 1000\"\n\tPort 1\nMatch all\n", fifo))
			r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:1", "-n", "1", "true"}})
			f, err := os.Open(fifo)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			out := bufio.NewReader(f)
			if line, err := out.ReadString('\n'); line != "begun\n" {
				t.Fatal(line, err)
			}
			r.cmd.Process.Signal(signal)
			if _, err := out.ReadByte(); err != io.EOF { // the command has the other end
				t.Error(err)
			}
			if res := r.wait(t); res.code != 128+int(signal) {
				t.Errorf("exit %d: %s", res.code, res.err)
			}
		})
	}
}

// A job container of GitHub's: HOME is a folder of the workflow, and the keys are those of the account. ssh takes these.
func TestHomeOfAContainer(t *testing.T) {
	t.Parallel()
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	home := t.TempDir()
	env := []string{"HOME=" + home, "USER=runner"}
	for _, way := range transports() {
		args := append(way, "-hosts", hostsWithSlots(b, 1), "-n", "2", hello)
		b.startMpiexec(t, mpiexecCall{args: args, env: env}).wait(t).checkOutput(t, b, b.helloLines([]string{"n1", "n2"}, 1))
	}
	b.editKnownHosts(t, b.knownAs(t, "n1"), "")
	b.checkRefused(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "true"}, env: env}, 125, "not in "+testbed.HomeDir()+"/.ssh/known_hosts")
	if left, err := os.ReadDir(filepath.Join(home, ".ssh")); err == nil {
		t.Errorf("made in HOME: %v", left)
	}
}
