//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// Sets of nodes (which-hosts.md), seen from inside the ranks and by those who wait.

// setCluster is a cluster file of two slow nodes of set a and two fast ones of set b.
func setCluster(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.toml")
	const text = "[[node]]\nname = \"n[1-2]\"\nid = 1\nfeatures = [\"a\"]\nprocspeed = 2000\n" +
		"[[node]]\nname = \"n[3-4]\"\nid = 3\nfeatures = [\"b\"]\nprocspeed = 3000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// setOf runs a job whose ranks tell their hosts and the set, and folds equal lines.
func (b *testCluster) setOf(t *testing.T, cluster string, args ...string) string {
	t.Helper()
	r := b.startMpiexec(t, mpiexecCall{args: append([]string{"--cluster", cluster}, append(args, "sh", "-c", `echo $MPIEXEC_HOST on ${MPIEXEC_NODESET-none}`)...)}).wait(t)
	if r.code != 0 {
		t.Errorf("%q: exit %d, %q", args, r.code, r.err)
	}
	seen := make(map[string]bool)
	var lines []string
	for _, line := range sortedLines(r.out) {
		if !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ", ")
}

// A job stays within one set, the first or the best that holds it, also where another job has a part of
// what would be better; by speed, with a tolerance both are one set.
func TestNodeSetsOfACluster(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	cluster := setCluster(t)
	cpus := b.countCores(t, cluster)
	two, four := fmt.Sprint(2*cpus), fmt.Sprint(4*cpus)
	for _, test := range []struct{ args, want string }{
		{"--node-set ONEOF:FEATURE:b,a -n " + two, "n3 on b, n4 on b"},
		{"--node-set ONEOF:PROCSPEED -n " + two, "n3 on 3000, n4 on 3000"},
		{"--node-set ONEOF:PROCSPEED --node-set-tolerance 0.5 -n " + four, "n1 on 2000, n2 on 2000, n3 on 2000, n4 on 2000"},
		{"--node-set ONEOF:FEATURE --node-set-plus SPANEVENLY -n " + four, "n1 on a+b, n2 on a+b, n3 on a+b, n4 on a+b"},
		{"--node-set ONEOF:FEATURE --node-set-optional yes -n " + four, "n1 on none, n2 on none, n3 on none, n4 on none"},
	} {
		if got := b.setOf(t, cluster, strings.Fields(test.args)...); got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
	}
	blocker := b.startHolding(t, "--cluster", cluster, "--nodes", "3", "-n", "1")
	blocker.awaitCPUs(t)
	if got := b.setOf(t, cluster, "--node-set", "ONEOF:FEATURE:b,a", "-n", two); got != "n1 on a, n2 on a" {
		t.Errorf("beside another job: %s", got)
	}
	b.checkRefused(t, mpiexecCall{args: []string{"--cluster", cluster, "--node-set", "ONEOF:FEATURE:b", "-n", two, "true"}}, 125,
		"no ONEOF:FEATURE set has room for", "(largest: b, at most ", "to wait: --wait")
	blocker.end(t)
	depth := min(2, cpus)
	on := b.startHolding(t, "--cluster", cluster, "--node-set", "ONEOF:FEATURE:b", "-n", "2", "--shape", "1", "--depth", fmt.Sprint(depth))
	on.awaitOut(t, "\n", 2)
	var told struct {
		Jobs []struct {
			Ranks, Depth, Shape int
			Set                 string `json:"node_set"`
		}
	}
	r := b.runMpiexec(t, "--ps", "--json", "n3")
	if err := json.Unmarshal([]byte(r.out), &told); err != nil || len(told.Jobs) != 1 {
		t.Fatalf("%v: %s%s", err, r.out, r.err)
	}
	if j := told.Jobs[0]; j.Ranks != 2 || j.Shape != 1 || max(1, j.Depth) != depth || j.Set != "b" {
		t.Errorf("--ps --json: %+v of %s", j, r.out)
	}
	if r := b.runMpiexec(t, "--ps", "n3"); !strings.Contains(r.out, "SHAPE  SET  NODES") || strings.Contains(r.out, "DEPTH") != (depth > 1) {
		t.Errorf("--ps: %s", r.out)
	}
	on.end(t)
}

// A job that insists on the best set waits for it at the head of the queue, though --wait was not given;
// it takes another one when its time is over, and leaves the queue when it is interrupted.
func TestDelayForANodeSet(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	cluster := setCluster(t)
	two := fmt.Sprint(2 * b.countCores(t, cluster))
	best := []string{"--cluster", cluster, "--node-set", "ONEOF:FEATURE:b,a", "--node-set-plus", "DELAY", "-n", two}
	blocker := b.startHolding(t, "--cluster", cluster, "--nodes", "3", "-n", "1")
	blocker.awaitCPUs(t)
	if got := b.setOf(t, cluster, append(best[2:], "--node-set-delay", "2")...); got != "n1 on a, n2 on a" {
		t.Errorf("when the time is over: %s", got)
	}
	given := b.startMpiexec(t, mpiexecCall{args: append(best, "--node-set-delay", "50m", "true")})
	if l := b.awaitQueue(t, "n1", 1); len(l.Jobs) > 1 {
		t.Errorf("it runs: %+v", l)
	}
	given.cmd.Process.Signal(syscall.SIGINT)
	given.wait(t)
	b.awaitQueue(t, "n1", 0)
	patient := b.startMpiexec(t, mpiexecCall{args: append(best, "--node-set-delay", "50m", "sh", "-c", `echo $MPIEXEC_NODESET`)})
	b.awaitQueue(t, "n1", 1)
	if !poll(goneTimeout, func() bool {
		return strings.Contains(patient.err.String(), "(mpiexec waits until ")
	}) {
		t.Errorf("it says %q", patient.err.String())
	}
	if r := b.runMpiexec(t, "--queue", "n1"); !strings.Contains(r.out, " for a better node set) ") || !strings.Contains(r.out, " ONEOF:FEATURE:b,a ") {
		t.Errorf("--queue: %q", r.out)
	}
	blocker.end(t)
	r := patient.wait(t)
	if lines := sortedLines(r.out); r.code != 0 || len(lines) == 0 || lines[0] != "b" || lines[len(lines)-1] != "b" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}
