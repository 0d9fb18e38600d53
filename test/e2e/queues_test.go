//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// With a list of queue hosts the death of the first stops nobody: those who wait move to the next, and a newcomer, who queues at
// the first when that is back, comes behind them (survive.md SV-35 to SV-39). That they keep their order if they are fast enough,
// reserve.TestEightMoveToTheNextQueueHost shows, in time that does not pass by itself.
func TestQueueHosts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(cluster, []byte("queueHosts = [\"n1\", \"n2\"]\n[[node]]\nname = \"n[1-3]\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	on := func(args ...string) []string { return append([]string{"--cluster", cluster, "--nodes", "2"}, args...) }
	waits := func(word string) *runningJob {
		return b.startMpiexec(t, mpiexecCall{args: on("-n", "2", "--wait", "--exclusive", "sh", "-c", "echo "+word+" $(date +%s%N)")})
	}
	blocker := b.startHolding(t, on("-n", "2")...)
	blocker.awaitCPUs(t)
	first := waits("first")
	b.awaitQueue(t, "n1", 1)
	second := waits("second")
	b.awaitQueue(t, "n1", 2)
	if err := b.Block("n1", 1); err != nil { // who is connected stays so, nobody else comes
		t.Fatal(err)
	}
	for _, h := range b.helperProcesses(t, "n1") {
		syscall.Kill(h.PID, syscall.SIGKILL)
	}
	b.awaitQueue(t, "n2", 2)
	if err := b.Unblock("n1"); err != nil {
		t.Fatal(err)
	}
	third := waits("third")
	b.awaitQueue(t, "n1", 1)
	blocker.input.Close()
	began := func(r *runningJob) int64 {
		res := r.wait(t)
		words := strings.Fields(res.out)
		if res.code != 0 || len(words) != 4 {
			t.Fatalf("exit %d, %q, %q", res.code, res.out, res.err)
		}
		at, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			t.Error(err)
		}
		return at
	}
	if last := began(third); began(first) > last || began(second) > last {
		t.Errorf("the newcomer has overtaken one of them: %s%s%s", &first.out, &second.out, &third.out)
	}
	for _, r := range []*runningJob{first, second} {
		if text := r.err.String(); !strings.Contains(text, "lost contact with the queue host n1 (") || !strings.Contains(text, "waits in the queue on n2") {
			t.Errorf("it says %q", text)
		}
	}
}
