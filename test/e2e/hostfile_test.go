//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// hostFile writes a host file with these lines and returns its path.
func hostFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// Every key of a host file has its effect on the host that it is said of, and there alone.
func TestKeysOfHostFiles(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	n1, err := b.Host("n1")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		lines string // between semicolons
		args  string
		tell  string // what each rank prints
		want  string // sorted lines between semicolons
	}{
		{"slots", "n1 slots=2;n2 slots=1", "", "$MPIEXEC_HOST", "n1;n1;n2"},
		{"max_slots", "n1 slots=1 max_slots=2;n2 slots=1", "-n 5 --overbook", "$MPIEXEC_HOST", "n1;n1;n2;n2;n2"},
		{"addr", "other slots=1 addr=" + n1.Addr + ";n2 slots=1", "", "$MPIEXEC_HOST $(hostname) $PMI_HOSTNAME", "n2 n2 10.88.0.2;other n1 " + n1.Addr},
		{"iface", "n1 slots=1 iface=lo;n2 slots=1", "-n 1", "$PMI_HOSTNAME", "127.0.0.1"},
		{"alias", "n1 slots=1 alias=a;n1 slots=1 alias=b", "", "$MPIEXEC_HOST $MPIEXEC_LOCAL_RANK of $MPIEXEC_NNODES", "a 0 of 2;b 0 of 2"},
		{"type", "n1 slots=1 type=gpu;n2 slots=1 type=ib,gpu;n3 slots=1", "--nodetype gpu", "$MPIEXEC_HOST", "n1;n2"},
		{"binding", "n1 slots=1 binding=none;n2 slots=1;n3 slots=1 bind=machine", "", "$MPIEXEC_HOST ${MPIEXEC_BINDING%%[0-9]*}", "n1 none;n2 ;n3 "},
		{"env", "n1 slots=1 env=A:n1 env=B:b;n[2-3] slots=1 env=A:'n 2'", "-genv B genv", "$MPIEXEC_HOST $A $B", "n1 n1 genv;n2 n 2 genv;n3 n 2 genv"},
	}
	for _, test := range tests {
		args := append([]string{"-f", hostFile(t, strings.Split(test.lines, ";")...)}, strings.Fields(test.args)...)
		r := b.runMpiexec(t, append(args, "sh", "-c", "echo \""+test.tell+"\"")...)
		if got := strings.Join(sortedLines(r.out), ";"); r.code != 0 || got != test.want {
			t.Errorf("%s: exit %d, %q, want %q; says %q", test.name, r.code, got, test.want, r.err)
		}
	}
	for _, test := range []struct{ line, says string }{
		{"n1 user=nobody-at-all", "login refused for user nobody-at-all"},
		{"n1 port=2222", "no ssh server listens on"},
		{"n1 addr=10.88.77.77", "connect: "},
		{"n1 slots=1 max_slots=1", "max_slots"},
		{"n1 iface=none-such", "none-such"},
	} {
		b.checkRefused(t, mpiexecCall{args: []string{"-f", hostFile(t, test.line), "--connect-timeout", "2", "-n", "2", "--overbook", "true"}}, 125, "n1", test.says)
	}
}

// The program that a host file names for a host is the one that runs there, and nothing is
// sent; without it, or with another build, nothing starts.
func TestPathOfTheHelper(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/root/site/mpiexec"
	put := func(host string, data []byte) {
		file := b.Root(host) + path
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("n1", program)
	for _, way := range transports() {
		args := append(way, "-f", hostFile(t, "n1 slots=1 path="+path), "-wdir", "/", "-n", "1")
		r := b.runMpiexec(t, append(args, helperPathProgram...)...)
		if r.checkSuccess(t); strings.TrimSpace(r.out) != path {
			t.Errorf("%q: the helper runs from %s", way, r.out)
		}
	}
	if _, err := os.Stat(b.Root("n1") + "/root/.cache/remshell"); err == nil {
		t.Error("the program was sent all the same")
	}
	hosts := hostFile(t, "n1 slots=1 path="+path, "n2 slots=1 path="+path)
	args := []string{"-f", hosts, "-n", "2", "true"}
	b.checkRefused(t, mpiexecCall{args: args}, 125, "n2: deliver: "+path+": there is no such file", hosts+":2")
	put("n2", []byte("#!/bin/sh\ntouch /tmp/trapped\n"))
	b.checkRefused(t, mpiexecCall{args: args}, 125, "n2: deliver: "+path+": it is not the same build as this mpiexec", "remove it from the host file")
	if _, err := os.Stat(b.Root("n2") + "/tmp/trapped"); err == nil {
		t.Error("the other program was run")
	}
}

// Inside of an allocation its hosts are the job's (HOST-10), and what a rank of it launches
// stays with the rank.
func TestAllocation(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	env := []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[2-3]", "SLURM_TASKS_PER_NODE=1,2"}
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-launcher", "ssh", "sh", "-c", "echo $MPIEXEC_RANK $(hostname)"}, env: env}).wait(t)
	if got := strings.Join(sortedLines(r.out), ";"); r.code != 0 || got != "0 n2;1 n3;2 n3" {
		t.Errorf("exit %d, %s%s", r.code, got, r.err)
	}
	r = b.startMpiexec(t, mpiexecCall{args: []string{"-launcher", "ssh", "-n", "1", "sh", "-c", "exec $(readlink /proc/$PPID/exe) -n 1 hostname"}, env: env}).wait(t)
	if r.code != 0 || r.out != "n2\n" {
		t.Errorf("launched by a rank: exit %d, %s%s", r.code, r.out, r.err)
	}
}
