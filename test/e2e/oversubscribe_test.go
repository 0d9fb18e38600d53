//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// Jobs with --oversubscribe share CPUs with each other on a host that is not idle, and never with
// a job without it; --overbook still wants idle hosts, as ParaStation says.
func TestOversubscribedJobsShareAHost(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	all := fmt.Sprint(runtime.NumCPU())
	refused := func(args ...string) {
		t.Helper()
		if r := b.runMpiexec(t, append(args, "true")...); r.code != 125 || !strings.Contains(r.err, "n1") {
			t.Errorf("%v: exit %d, %q, want it refused", args, r.code, r.err)
		}
	}
	first := b.startHolding(t, "-host", "n1", "-n", all, "--oversubscribe")
	first.awaitCPUs(t)
	if r := b.runMpiexec(t, "-host", "n1", "-n", "3", "--map-by", "slot:oversubscribe", "sh", "-c", "echo runs"); r.code != 0 || strings.Count(r.out, "runs") != 3 {
		t.Errorf("beside a job that shares: exit %d, %q, %q", r.code, r.out, r.err)
	}
	refused("-host", "n1", "-n", "1")
	refused("-host", "n1", "-n", "1", "--overbook")
	if r := first.end(t); r.code != 0 {
		t.Errorf("the first job: exit %d, %q", r.code, r.err)
	}
	second := b.startHolding(t, "-host", "n1", "-n", all)
	second.awaitCPUs(t)
	refused("-host", "n1", "-n", "1", "--oversubscribe")
	second.end(t)
}

// mpiexec -host n1,n2 -ppn 1 without -n refuses if n2 is busy. It ran on n1 alone and exited with 0.
func TestABusyNamedHostIsNotLeftOut(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	busy := b.startHolding(t, "-host", "n2", "-n", fmt.Sprint(runtime.NumCPU()))
	busy.awaitCPUs(t)
	line := []string{"-host", "n1,n2", "-ppn", "1", "sh", "-c", "echo runs"}
	if r := b.runMpiexec(t, line...); r.code != 125 || !strings.Contains(r.err, "but there is no room on n2 now") {
		t.Errorf("a busy host: exit %d, %q, %q", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, append([]string{"--skip-unreachable"}, line...)...); r.code != 0 || strings.Count(r.out, "runs") != 1 {
		t.Errorf("--skip-unreachable: exit %d, %q, %q", r.code, r.out, r.err)
	}
	busy.end(t)
	if r := b.runMpiexec(t, line...); r.code != 0 || strings.Count(r.out, "runs") != 2 {
		t.Errorf("no busy host: exit %d, %q, %q", r.code, r.out, r.err)
	}
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(cluster, []byte("[[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\nrunJobs = \"no\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := b.runMpiexec(t, append([]string{"--cluster", cluster}, line...)...); r.code != 125 || !strings.Contains(r.err, "but there is no room on n2") || !strings.Contains(r.err, "the host does not allow jobs (runJobs = no)") {
		t.Errorf("a host that runs no jobs: exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// Slots that the user wrote are so many ranks without -n. With one CPU of n2 taken, 3 of 4 ranks ran, and the exit was 0.
func TestAllWrittenSlotsRunOrTheJobIsRefused(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	busy := b.startHolding(t, "-host", "n2", "-n", "1", "--oversubscribe")
	busy.awaitCPUs(t)
	line := []string{"-host", fmt.Sprintf("n1:1,n2:%d", runtime.NumCPU()), "sh", "-c", "echo runs"}
	if r := b.runMpiexec(t, line...); r.code != 125 || !strings.Contains(r.err, "ranks do not fit") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, append([]string{"--oversubscribe"}, line...)...); r.code != 0 || strings.Count(r.out, "runs") != 1+runtime.NumCPU() {
		t.Errorf("--oversubscribe: exit %d, %q, %q", r.code, r.out, r.err)
	}
	busy.end(t)
}

// A job with --oversubscribe spawns on free hosts first. Both children shared the only CPU of their parent.
func TestSpawnsOfSharingJobsTakeFreeHostsFirst(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	b.runSpawnCases(t, mpiProgram(t, "spawn"), []string{"-host", "n1:1,n2:2", "--oversubscribe"},
		spawnCase{key: "wdir", value: "/", count: 2, on: "n2"},
		spawnCase{key: "host", value: "n1", count: 2, on: "n1"},
	)
}

// Ranks of Open MPI that share CPUs are not bound to one CPU each, unless that is asked for: one of NWChem waited there for
// whatever else ran. MPICH's keep their CPUs.
func TestOverbookedOpenMPIIsNotBound(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	n := fmt.Sprint(2 * runtime.NumCPU())
	for _, test := range []struct {
		name, program string
		options       []string
		bound         bool
	}{
		{"overbooked", "sessions.openmpi", []string{"-n", n}, false},
		{"a binding was asked for", "sessions.openmpi", []string{"-n", n, "--bind-to", "core:overload-allowed"}, true},
		{"a CPU each", "sessions.openmpi", []string{"-n", fmt.Sprint(runtime.NumCPU())}, true},
		{"MPICH", "sessions", []string{"-n", n}, true},
		{"no MPI", "/bin/true", []string{"-n", n}, true},
	} {
		program := test.program
		if !filepath.IsAbs(program) {
			program = mpiProgram(t, program)
		}
		r := b.runMpiexec(t, append(append([]string{"-host", "n1", "--oversubscribe", "--report-bindings"}, test.options...), program)...)
		if unbound := strings.Count(r.err, "not bound"); r.code != 0 || (unbound == 0) != test.bound {
			t.Errorf("%s: exit %d, %q, want bound ranks: %v", test.name, r.code, r.err, test.bound)
		}
	}
}
