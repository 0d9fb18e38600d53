//go:build linux

package e2e

import (
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// asRoot lets programs of Open MPI run as root, as which the testbed does.
var asRoot = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}

// PMIX-2: programs of both families find each other,
// also where the helper sees a shell or env in their place; -v tells why.
func TestProgramsAreOfferedWhatTheySpeak(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for program, why := range map[string]string{"hello.openmpi": "PMI versions for its ranks: pmix (libmpi.so.40 -> ", "hello.mpich4": "PMI versions for its ranks: pmi1 (libmpich.so.12 -> "} {
		file := mpiProgram(t, program)
		for _, c := range []struct {
			words []string
			why   string
		}{
			{[]string{file}, why},
			{[]string{"sh", "-c", "exec " + file}, "PMI versions for its ranks: both (the program is not linked with an MPI library)"},
			{[]string{"env", "A=1", file}, "PMI versions for its ranks: both (the program is not linked with an MPI library)"},
			{[]string{"--pmi", "both", file}, "PMI versions for its ranks: both (--pmi)"},
		} {
			r := b.startMpiexec(t, mpiexecCall{env: asRoot, args: append([]string{"-v", "-host", "n1:2", "-n", "2"}, c.words...)}).wait(t)
			if r.code != 0 || !strings.Contains(r.out, "rank 1 of 2") || !strings.Contains(r.out, "ring ok\n") || !strings.Contains(r.err, c.why) {
				t.Errorf("%q: exit %d, %q, %q", c.words, r.code, r.out, r.err)
			}
		}
	}
}

// PMIX-8: variables of an outer launcher have no effect.
func TestOuterPMIxIsRemoved(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	outer := append([]string{"SLURM_PROCID=3", "PMIX_NAMESPACE=outer", "PMIX_RANK=3", "PMIX_SERVER_URI41=outer.0;tcp4://127.0.0.1:1",
		"OMPI_UNIVERSE_SIZE=99", "JSM_JSRUN_PORT=1"}, asRoot...)
	r := b.startMpiexec(t, mpiexecCall{env: outer, args: []string{"-host", "n1:2", "-n", "2", mpiProgram(t, "hello.openmpi")}}).wait(t)
	if r.code != 0 || !strings.Contains(r.out, "rank 1 of 2") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	r = b.startMpiexec(t, mpiexecCall{env: outer, args: []string{"-host", "n1:2", "-n", "1", "--pmi", "none", "sh", "-c", "env"}}).wait(t)
	for _, left := range []string{"SLURM_PROCID=", "PMIX_", "OMPI_UNIVERSE_SIZE=", "JSM_JSRUN_PORT=", "PMI_"} {
		if r.code != 0 || strings.Contains("\n"+r.out, "\n"+left) {
			t.Errorf("%s is left: exit %d, %q", left, r.code, r.out)
		}
	}
}

// withoutLoopbackPorts runs a command on a node where no port of the loopback is free.
const withoutLoopbackPorts = `echo 40000 40000 >/proc/sys/net/ipv4/ip_local_port_range && exec /usr/bin/python3 -c '
import socket, subprocess, sys
s = socket.socket(); s.bind(("127.0.0.1", 40000)); s.listen()
sys.exit(subprocess.call(sys.argv[1:]))' "$@"`

// PMIX-15: a node without a port for PMIx troubles only who wants it, and staged programs no more
// than others.
func TestANodeWithoutAPortForPMIx(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"-n 1 true", 0, ""},
		{"--pmi both -n 1 true", 0, "cannot start the PMIx server, so ranks can use only PMI-1: cannot open a port for PMIx"},
		{"--pmi pmix -n 1 true", 125, "cannot start the PMIx server on this host"},
		{"--pmi pmix --stage /bin/true -n 1 true", 125, "cannot start the PMIx server on this host"},
	} {
		_, errs, code := b.runOnHead(t, "unshare", append([]string{"-n", "sh", "-c", withoutLoopbackPorts, "sh", binary}, strings.Fields(c.line)...)...)
		if code != c.code || !strings.Contains(errs, c.says) || c.says == "" && errs != "" {
			t.Errorf("%s: exit %d, %q; want %d, %q", c.line, code, errs, c.code, c.says)
		}
	}
}
