//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// EXIT-2, EXIT-3: the exit code is that of the first rank that exits, or the highest with --exit-status max.
func TestFirstToExit(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	const script = "exit $((MPI_LOCALRANKID+3))"
	if r := b.runMpiexec(t, "-host", "n1:2", "-n", "2", "sh", "-c", script); r.code != 3 && r.code != 4 || !strings.Contains(r.err, fmt.Sprint("exited with code ", r.code)) {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := b.runMpiexec(t, "-host", "n1:2", "-n", "2", "-K0", "--exit-status", "max", "sh", "-c", script); r.code != 4 {
		t.Errorf("max: exit %d: %s", r.code, r.err)
	}
}

// SIG-1: every rank gets SIGINT. (Perl dies of another signal by
// default; Python's KeyboardInterrupt is this one.)
func TestInterruptIsTheRealOne(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	const script = `$SIG{INT} = sub { print "KeyboardInterrupt\n"; exit 1 }; $| = 1; print "ready\n"; sleep 1 while 1`
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:2", "-n", "4", "perl", "-e", script}})
	r.awaitOut(t, "ready", 4)
	r.cmd.Process.Signal(syscall.SIGINT)
	if res := r.wait(t); res.code != 130 || strings.Count(res.out, "KeyboardInterrupt") != 4 || len(res.causes()) > 0 {
		t.Errorf("exit %d, %q, %q", res.code, res.out, res.err)
	}
}

// IO-1, IO-3: both ranks of cat end, with input and without.
func TestCatEnds(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.runMpiexec(t, "-hosts", "n1,n2", "-ppn", "1", "-n", "2", "cat").checkSuccess(t)
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1,n2", "-ppn", "1", "-n", "2", "cat"}, stdin: strings.NewReader("text\n")}).wait(t)
	if r.checkSuccess(t); r.out != "text\n" {
		t.Errorf("%q", r.out)
	}
}

// ENV-6: a rank on this host has the same variables as one on another host, except those of its login.
func TestEnvironmentAtHomeAndElsewhere(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	own := []string{"ONE=1", "SSH_AUTH_SOCK=/dead", "HOSTNAME=the-head", "DISPLAY=:0", "TMUX=x", "OMPI_COMM_WORLD_RANK=3"}
	login := []string{"LOGNAME", "USER", "HOSTNAME", "LANG", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SHELL", "MAIL", "MOTD_SHOWN", "SHLVL", "_", "PMI_HOSTNAME", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "MPIEXEC_SUGGESTED"}
	for _, options := range []string{"", "-genvnone"} {
		names := make(map[string][]string)
		for _, host := range []string{"localhost", "n1"} {
			r := b.startMpiexec(t, mpiexecCall{env: own, args: append(strings.Fields(options+" -host "+host+" -n 1"), "/usr/bin/env")}).wait(t)
			if r.code != 0 || strings.Contains(r.out, "/dead") || host == "n1" && strings.Contains(r.out, "the-head") {
				t.Errorf("%s %s: exit %d, %s%s", options, host, r.code, r.out, r.err)
			}
			for line := range strings.Lines(r.out) {
				name, _, _ := strings.Cut(line, "=")
				if !slices.Contains(login, name) {
					names[host] = append(names[host], name)
				}
			}
			slices.Sort(names[host])
		}
		if !slices.Equal(names["localhost"], names["n1"]) {
			t.Errorf("%s: at home %q\non n1 %q", options, names["localhost"], names["n1"])
		}
		if len(names["n1"]) > 64 && options == "-genvnone" { // half of them are for Open MPI
			t.Errorf("-genvnone leaves %q", names["n1"])
		}
	}
}

// A batch script calls module, which is a shell function that the login has exported.
func TestExportedShellFunctions(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	const script = `module() { echo "module $*"; }; export -f module; exec "$0" -hosts "$1" -n 1 bash -c 'module load gcc'`
	for _, host := range []string{"localhost", "n1"} {
		r := b.startCommand(t, mpiexecCall{}, []string{"bash", "-c", script, binary, host}).wait(t)
		r.checkOutput(t, b, []string{"module load gcc"})
	}
}

// HOST-8: a job on this host needs no network, and no name that can be looked up.
func TestNoNetworkAndNoName(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	out, errs, code := b.runOnHead(t, "unshare", "-n", "-u", "sh", "-c", `hostname nobody-knows-me.invalid; exec "$0" -host localhost:2 -n 2 hostname`, binary)
	if code != 0 || out != strings.Repeat("nobody-knows-me.invalid\n", 2) || errs != "" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// DIAG-8: no escape sequences are written to a pipe.
func TestNoEscapes(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for _, line := range []string{"-help", "-help -bind-to", "-n foo x", "--dry-run -n 1 x", "-host n1 -l -v -n 1 false", "-host nowhere.invalid -n 1 true",
		"-timeout 0.5 -host n1 --usage -print-all-exitcodes --display-map -n 1 sleep 100"} {
		r := b.startMpiexec(t, mpiexecCall{env: []string{"NO_COLOR=1"}, args: strings.Fields(line)}).wait(t)
		if strings.Contains(r.out+r.err, "\x1b") || r.out+r.err == "" {
			t.Errorf("%s: %q, %q", line, r.out, r.err)
		}
	}
}
