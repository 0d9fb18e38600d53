//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// A first try needs nobody's library: our own ranks go round over two hosts, whatever the user has said of output.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	dir := t.TempDir()
	for _, args := range [][]string{
		{"--selftest", "n1", "n2"}, {"--selftest", "-host", "n1,n2"}, {"--selftest", "-hosts", "n1,n2", "-l", "-ordered-output", "-stdin", "none", "-outfile-pattern", filepath.Join(dir, "%r")},
	} {
		r := b.startMpiexec(t, mpiexecCall{args: args, env: []string{"MPIEXEC_COLLAPSE=yes", "MPIEXEC_FORWARD_SIGNALS=none"}}).wait(t)
		if r.code != 0 || r.err != "" || !strings.HasPrefix(r.out, "selftest passed: 4 ranks on n[1-2]\n  start ") || !strings.HasSuffix(r.out, "; standard input, output and signals work\n") || strings.Count(r.out, "\n") != 2 {
			t.Errorf("%q: exit %d: %s%s", args, r.code, r.out, r.err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
	if r := b.runMpiexec(t, "--selftest"); r.code != 0 || !strings.HasPrefix(r.out, "selftest passed: ") {
		t.Errorf("here: exit %d: %s%s", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, "--selftest", "-n", "3", "-ppn", "3", "n2"); r.code != 0 || !strings.HasPrefix(r.out, "selftest passed: 3 ranks on n2\n") {
		t.Errorf("three: exit %d: %s%s", r.code, r.out, r.err)
	}
	for _, refused := range []struct {
		args []string
		text string
	}{
		{[]string{"--selftest", "-host", "n1", "./hello"}, "mpiexec: --selftest starts its own program, not ./hello"},
		{[]string{"--selftest", "--doctor", "n1"}, "mpiexec: --selftest and --doctor cannot be used together"},
		{[]string{"--selftest", "n1", "nowhere.invalid"}, "mpiexec: nowhere.invalid: resolve: "},
		{[]string{"--helper-selftest"}, "mpiexec: --helper-selftest is an internal option: mpiexec uses it to start itself on a host"},
	} {
		if r := b.runMpiexec(t, refused.args...); r.code != 125 || r.out != "" || !strings.HasPrefix(r.err, refused.text) {
			t.Errorf("%q: exit %d: %s%s", refused.args, r.code, r.out, r.err)
		}
	}
}

// An ordinary user, of whom the hosts know nothing but a key, gets the same.
func TestSelfTestOfANewcomer(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	b.shareRepo(t)
	n := addNewUser(t, b)
	login := []string{"env", "-i", "HOME=" + n.home, "USER=newcomer", "PATH=/usr/bin:/bin", binary, "--selftest", "--accept-new-host-keys", "n1", "n2"}
	if r := n.startCommand(t, mpiexecCall{uid: n.uid}, login).wait(t); r.code != 0 || !strings.HasPrefix(r.out, "selftest passed: 4 ranks on n[1-2]\n") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}

// Each pair of hosts that cannot talk as MPI would is named, with why and what to do.
func TestSelfTestSaysWhichHostsCannotConnect(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name, line string
		build      func(t *testing.T, b *testCluster)
	}{
		{"no route", "  n1: rank 1 cannot connect to rank 2 on n2 at %s:", func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "ip", "route", "add", "unreachable", b.Hosts[1].Addr)
		}},
		{"firewall", "  n1: rank 1 cannot connect to rank 2 on n2 at %s:", func(t *testing.T, b *testCluster) {
			b.runOn(t, "n2", "nft", fmt.Sprintf("add table inet d; add chain inet d i { type filter hook input priority 0; }; add rule inet d i ip saddr %s tcp flags syn / syn,ack drop", b.Hosts[0].Addr))
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			b := newTestCluster(t, testbed.Options{Hosts: 2})
			b.requireNamespaces(t)
			fault.build(t, b)
			r := b.runMpiexec(t, "--selftest", "n1", "n2")
			first, rest, _ := strings.Cut(r.err, "\n")
			if r.code != 125 || r.out != "" || !strings.HasPrefix(first, "mpiexec: selftest: ranks cannot connect to each other by TCP") || !strings.Contains(r.err, "open the ports") ||
				!strings.HasPrefix(rest, fmt.Sprintf(fault.line, b.Hosts[1].Addr)) {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
		})
	}
}
