//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/proc"
	"remshell/tools/testbed"
)

// Jobs that share nodes (placement.md 6): claims and the queue, seen from outside.

// raceRounds is how often a race is run: enough to be worth it, or as often as the issue says.
func raceRounds(short, long int) int {
	if os.Getenv("E2E_LONG") != "" {
		return long
	}
	return short
}

// A holdingJob is a job that holds its CPUs until it is told to end.
type holdingJob struct {
	*runningJob
	input io.WriteCloser
}

// startHolding starts a job whose ranks say on which CPUs they may run, and stay.
func (b *testCluster) startHolding(t *testing.T, args ...string) holdingJob {
	t.Helper()
	r, w := inputPipe(t)
	const script = `grep Cpus_allowed_list: /proc/self/status; exec cat`
	return holdingJob{b.startMpiexec(t, mpiexecCall{args: append(args, "sh", "-c", script), stdin: r}), w}
}

// inputPipe is an input for a job. With an io.Pipe, who waits for a job that was killed would wait
// for the end of its input.
func inputPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// awaitCPUs waits until a rank has told its CPUs.
func (h holdingJob) awaitCPUs(t *testing.T) string {
	t.Helper()
	h.awaitOut(t, "\n", 1)
	return strings.TrimSpace(strings.TrimPrefix(h.out.String(), "Cpus_allowed_list:"))
}

// end lets a job end.
func (h holdingJob) end(t *testing.T) result {
	t.Helper()
	h.input.Close()
	return h.wait(t)
}

// A jobListing is what --json tells of jobs.
type jobListing struct {
	Jobs    []struct{ Job, Command string }
	Waiting []struct{ Job, Summary string }
}

func (b *testCluster) readListing(t *testing.T, args ...string) (l jobListing) {
	t.Helper()
	r := b.runMpiexec(t, append([]string{"--ps", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(r.out), &l); err != nil {
		t.Fatalf("%v in %q; stderr %q", err, r.out, r.err)
	}
	return l
}

// awaitQueue waits until so many requests wait in the queue of a host.
func (b *testCluster) awaitQueue(t *testing.T, host string, n int) jobListing {
	t.Helper()
	var l jobListing
	if !poll(goneTimeout, func() bool { l = b.readListing(t, host); return len(l.Waiting) == n }) {
		t.Fatalf("%d requests wait on %s, want %d", len(l.Waiting), host, n)
	}
	return l
}

// noClaims asserts that a host's ledger has neither claims nor tickets, within a second.
func (b *testCluster) noClaims(t *testing.T, host string) {
	t.Helper()
	var left []string
	dir := b.ledgerDir(host)
	ok := poll(goneTimeout, func() bool {
		left, _ = filepath.Glob(dir + "/remshell-*-claim-*")
		tickets, _ := filepath.Glob(dir + "/remshell-*-ticket-*")
		left = append(left, tickets...)
		return len(left) == 0
	})
	if !ok {
		t.Errorf("left in the ledger of %s: %q", host, left)
	}
}

func (b *testCluster) ledgerDir(host string) string {
	if b.Kind == testbed.Namespaces {
		return b.Root(host) + "/var/tmp"
	}
	return b.State
}

// Two jobs of two launchers, started at the same moment, never share a core; a third, that
// wants a node alone, gets the other one; a fourth is refused, or waits.
func TestJobsShareNoCore(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	for range raceRounds(15, 200) {
		one, two := b.startHolding(t, "-host", "n1", "-n", "1"), b.startHolding(t, "-host", "n1", "-n", "1")
		if one.awaitCPUs(t) == two.awaitCPUs(t) {
			t.Fatalf("both on CPU %s", one.awaitCPUs(t))
		}
		r := b.runMpiexec(t, "-hosts", "n1,n2", "--exclusive", "-n", "1", "hostname")
		if r.checkSuccess(t); r.out != "n2\n" {
			t.Fatalf("--exclusive started on %q", r.out)
		}
		r = b.runMpiexec(t, "-host", "n1", "-n", "1", "hostname")
		if r.code != 125 || !strings.Contains(r.err, "n1: jobs of root have used all 2 CPUs since ") {
			t.Fatalf("no core was free: exit %d, %q, %q", r.code, r.out, r.err)
		}
		r = b.runMpiexec(t, "-host", "n1", "--exclusive", "-n", "1", "hostname")
		if r.code != 125 || !strings.Contains(r.err, "not idle") {
			t.Fatalf("the node was not idle: exit %d, %q, %q", r.code, r.out, r.err)
		}
		next := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "--wait", "-n", "1", "hostname"}})
		one.end(t).checkSuccess(t)
		if r := next.wait(t); r.code != 0 || r.out != "n1\n" {
			t.Fatalf("it waited: exit %d, %q, %q", r.code, r.out, r.err)
		}
		two.end(t).checkSuccess(t)
	}
	b.noClaims(t, "n1")
}

// Whatever kills a launcher, a helper or its reaper, and whenever, the cores are free again
// within a second.
func TestKilledJobsHoldNothing(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	for i := range raceRounds(20, 200) {
		victim := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "-n", "2", "sh", "-c", "echo ready; exec sleep 1000"}})
		if i%4 != 0 { // else at any moment of the start
			victim.awaitOut(t, "ready", 2)
		} else {
			<-time.After(rand.N(60 * time.Millisecond))
		}
		pids := []int{victim.cmd.Process.Pid}
		if helpers := b.helperProcesses(t, "n1"); i%2 == 1 && len(helpers) > 0 {
			pids[0] = helpers[i/2%len(helpers)].PID
		}
		syscall.Kill(pids[0], syscall.SIGKILL)
		r := b.runMpiexec(t, "-host", "n1", "-n", "2", "--wait=1", "true")
		if r.code != 0 {
			t.Fatalf("round %d: the cores are not free after a second: exit %d, %q", i, r.code, r.err)
		}
		victim.end()
	}
	b.noClaims(t, "n1")
}

// An mpiexec that is killed on its own machine leaves ranks that may take their time. Nobody
// else gets their CPUs meanwhile.
func TestARankThatOutlivesItsMpiexecKeepsItsCPUs(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	asked := filepath.Join(t.TempDir(), "asked")
	victim := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "2", "--kill-grace", "2", "sh", "-c",
		"trap 'echo asked >>$0' TERM; echo ready; while :; do sleep 1000 & wait; done", asked}})
	victim.awaitOut(t, "ready", 2)
	// The guard comes a moment behind the ranks.
	guarded := func() bool {
		for _, p := range proc.Descendants(victim.cmd.Process.Pid) {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); strings.Contains(string(line), "--helper-guard") {
				return true
			}
		}
		return false
	}
	if !poll(goneTimeout, guarded) {
		t.Fatal("there is no guard")
	}
	victim.cmd.Process.Kill()
	if !poll(goneTimeout, func() bool { _, err := os.Stat(asked); return err == nil }) {
		t.Error("no rank was asked to end")
	}
	r := b.runMpiexec(t, "-host", "localhost", "--nooversubscribe", "-n", "1", "true")
	if r.code != 125 || !strings.Contains(r.err, "jobs of root have used all ") {
		t.Errorf("while the ranks of a killed job live: exit %d, %q", r.code, r.err)
	}
	if r = b.runMpiexec(t, "-host", "localhost", "-n", "2", "--wait=30", "true"); r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

// Requests of many launchers start in the order of their tickets.
func TestQueueIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	blocker := b.startHolding(t, "-host", "n1", "-n", "1")
	blocker.awaitCPUs(t)
	const waiters = 20
	var waiting []*runningJob
	for i := range waiters {
		waiting = append(waiting, b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "-n", "2", "--wait", "-l",
			"sh", "-c", "[ $PMI_RANK = 1 ] || echo $0 >>/tmp/order", strconv.Itoa(i)}, timeout: 2 * time.Minute}))
	}
	l := b.awaitQueue(t, "n1", waiters)
	var want []string
	for _, w := range l.Waiting {
		words := strings.Fields(w.Summary)
		want = append(want, words[len(words)-1])
	}
	// One core is free, but nobody passes by those who wait.
	if r := b.runMpiexec(t, "-host", "n1", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "must wait for 20 requests in the queue") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	blocker.end(t)
	for _, w := range waiting {
		if r := w.wait(t); r.code != 0 {
			t.Errorf("exit %d, %q", r.code, r.err)
		}
	}
	if got := b.runOn(t, "n1", "cat", "/tmp/order"); got != strings.Join(want, "\n") {
		t.Errorf("started in the order %q, queued as %q", got, want)
	}
	b.noClaims(t, "n1")
}

// A waiter that is killed or interrupted, be it the head, leaves no trace, and the order of
// the others stays.
func TestWaitersThatGo(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	blocker := b.startHolding(t, "-host", "n1", "-n", "2")
	blocker.awaitCPUs(t)
	var waiting []*runningJob
	for i := range 5 {
		waiting = append(waiting, b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "-n", "2", "--wait",
			"sh", "-c", "[ $PMI_RANK = 1 ] || echo $0 >>/tmp/order", strconv.Itoa(i)}}))
		b.awaitQueue(t, "n1", i+1)
	}
	waiting[0].cmd.Process.Kill() // the head
	waiting[2].cmd.Process.Signal(syscall.SIGINT)
	if r := waiting[2].wait(t); r.code != 130 {
		t.Errorf("^C: exit %d, %q", r.code, r.err)
	}
	b.awaitQueue(t, "n1", 3)
	waiting[1].cmd.Process.Kill() // the new head, which may be at its first attempt
	b.awaitQueue(t, "n1", 2)
	blocker.end(t)
	for _, i := range []int{3, 4} {
		if r := waiting[i].wait(t); r.code != 0 || !strings.Contains(r.err, "") {
			t.Errorf("waiter %d: exit %d, %q", i, r.code, r.err)
		}
	}
	if got := b.runOn(t, "n1", "cat", "/tmp/order"); got != "3\n4" {
		t.Errorf("started: %q", got)
	}
	b.noClaims(t, "n1")
}

// The head starts as soon as a job ends on a node, and says what it waits for. The longest
// time to wait is kept.
func TestWaitingTellsAndEnds(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	blocker := b.startHolding(t, "-host", "n2", "-n", "2")
	blocker.awaitCPUs(t)
	r := b.runMpiexec(t, "-host", "n2", "-n", "1", "--wait=0.3", "true")
	if r.code != 125 || !strings.Contains(r.err, "waited 00:00:00") || r.took > goneTimeout {
		t.Errorf("--wait=0.3: exit %d after %v, %q", r.code, r.took, r.err)
	}
	w := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1,n2", "-n", "3", "--wait", "true"}})
	b.awaitQueue(t, "n1", 1)
	silent := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1,n2", "-n", "1", "--wait", "-q", "true"}})
	b.awaitQueue(t, "n1", 2)
	const line = "mpiexec: waiting in the queue, position 1 of 2 (there are free CPUs for only 2 of 3 ranks)\n"
	if !poll(goneTimeout, func() bool { return strings.HasSuffix(w.err.String(), line) }) {
		t.Fatalf("it says %q, want %q", w.err.String(), line)
	}
	ended := time.Now()
	blocker.end(t)
	if r := w.wait(t); r.code != 0 || !strings.Contains(r.err, "mpiexec: the job starts now, after waiting for 00:0") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	silent.wait(t).checkSuccess(t)
	if took := time.Since(ended); took > goneTimeout {
		t.Errorf("it started %v after the nodes were free", took)
	}
}

// A request that nobody seems to wait for any more, since its mpiexec was stopped, does not
// stop all others. It goes to the end when it goes on.
func TestStoppedWaiterLosesItsPlace(t *testing.T) {
	t.Parallel()
	if os.Getenv("E2E_LONG") == "" {
		t.Log("the first part only: the patience of 15 s is for E2E_LONG")
	}
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	blocker := b.startHolding(t, "-host", "n1", "-n", "2")
	blocker.awaitCPUs(t)
	first := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "--wait", "echo", "first"}})
	b.awaitQueue(t, "n1", 1)
	if os.Getenv("E2E_LONG") != "" {
		first.cmd.Process.Signal(syscall.SIGSTOP)
		b.awaitQueue(t, "n1", 0)
		first.cmd.Process.Signal(syscall.SIGCONT)
		b.awaitQueue(t, "n1", 1)
	}
	blocker.end(t)
	if r := first.wait(t); r.code != 0 || r.out != "first\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// The queue host of a cluster file: without it nothing starts; gone for a while, those who
// wait queue again.
func TestQueueHostGoesAndComes(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	text := "queueHost = \"n1\"\n[[node]]\nname = \"n[1-2]\"\n"
	if err := os.WriteFile(cluster, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	on := func(args ...string) []string { return append([]string{"--cluster", cluster, "--nodes", "1"}, args...) }
	blocker := b.startHolding(t, on("-n", "2")...)
	blocker.awaitCPUs(t)
	w := b.startMpiexec(t, mpiexecCall{args: on("-n", "1", "--wait", "hostname")})
	b.awaitQueue(t, "n1", 1)
	for _, h := range b.helperProcesses(t, "n1") { // those of the blocker and of the waiter
		syscall.Kill(h.PID, syscall.SIGKILL)
	}
	if !poll(goneTimeout, func() bool { return strings.Contains(w.err.String(), "lost contact with the queue host n1 (") }) {
		t.Errorf("it says %q", w.err.String())
	}
	b.awaitQueue(t, "n1", 1)
	blocker.input.Close()
	if r := w.wait(t); r.code != 0 || r.out != "n2\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if err := b.SetLink("n1", false); err != nil {
		t.Fatal(err)
	}
	r := b.runMpiexec(t, on("--connect-timeout", "1", "-n", "1", "true")...)
	if r.code != 125 || !strings.Contains(r.err, "the queue host n1 cannot be reached") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if err := os.WriteFile(cluster, []byte("queueRequired = \"no\"\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	r = b.runMpiexec(t, on("--connect-timeout", "1", "-n", "1", "hostname")...)
	if r.code != 0 || r.out != "n2\n" || !strings.Contains(r.err, "the job starts without waiting in the queue") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if err := b.SetLink("n1", true); err != nil {
		t.Fatal(err)
	}
}

// What people ask about jobs: --ps, --queue, --status, --signal.
func TestJobsAreListedAndSignalled(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	if r := b.runMpiexec(t, "--ps", "n[1-2]"); r.out != "no jobs\n" {
		t.Errorf("%q, %q", r.out, r.err)
	}
	if r := b.runMpiexec(t, "--queue", "n1"); r.out != "nobody waits\n" {
		t.Errorf("%q, %q", r.out, r.err)
	}
	one := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1,n2", "-n", "3", "sh", "-c",
		`trap 'echo got USR1' USR1; echo ready; while :; do sleep 1000 & wait; done`}})
	one.awaitOut(t, "ready", 3)
	w := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1,n2", "-n", "2", "--wait", "true"}})
	l := b.awaitQueue(t, "n1", 1)
	if len(l.Jobs) != 1 || !strings.HasPrefix(l.Jobs[0].Command, "sh -c trap") {
		t.Fatalf("listed %+v", l)
	}
	id := l.Jobs[0].Job
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"--ps", "n1", "n2"}, []string{"JOB", id, "root", "00:00:0", " 3 ", "n[1-2]", "sh -c trap"}},
		{[]string{"--ps", "n1"}, []string{id, "n1+1"}},
		{[]string{"--queue", "n1"}, []string{"POSITION", "1 ", l.Waiting[0].Job, " 2 ", "true"}},
		{[]string{"--status", id, "n[1-2]"}, []string{"job      " + id + " runs", "n1  ranks 0-1", "n2  rank 2"}},
		{[]string{"--status", l.Waiting[0].Job, "n1"}, []string{"waits, position 1 of 1"}},
	} {
		r := b.runMpiexec(t, test.args...)
		r.checkSuccess(t)
		for _, want := range test.want {
			if !strings.Contains(r.out, want) {
				t.Errorf("%q says %q, want %q", test.args, r.out, want)
			}
		}
	}
	b.runMpiexec(t, "--signal", "USR1", id, "n1,n2").checkSuccess(t)
	one.awaitOut(t, "got USR1", 3)
	for args, want := range map[string]string{
		"--signal USR1 nojob n1": "there is no job nojob",
		"--status nojob n1":      "there is no job nojob",
		"--signal FOO " + id:     `"FOO" is not a signal`,
	} {
		if r := b.runMpiexec(t, strings.Fields(args)...); r.code != 125 || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.err)
		}
	}
	b.runMpiexec(t, "--signal", "KILL", id, "n[1-2]").checkSuccess(t)
	one.wait(t).checkCause(t, 137, "Killed (signal 9)")
	w.wait(t).checkExit0(t)
}

func (r result) checkExit0(t *testing.T) {
	t.Helper()
	if r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

// Jobs of another user count like one's own, and are his own business.
func TestAnotherUsersJob(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.shareRepo(t)
	mine := b.startHolding(t, "-host", "localhost", "-n", "1")
	cpus := mine.awaitCPUs(t)
	id := b.readListing(t, "localhost").Jobs[0].Job
	his := func(args ...string) result {
		return b.startMpiexec(t, mpiexecCall{args: args, env: []string{"HOME=/", "USER=somebody"}, uid: 12345}).wait(t)
	}
	r := his("-host", "localhost", "-n", "1", "sh", "-c", "grep Cpus_allowed_list: /proc/self/status")
	if r.code != 0 || strings.TrimSpace(strings.TrimPrefix(r.out, "Cpus_allowed_list:")) == cpus {
		t.Errorf("exit %d, %q, %q; the other has %s", r.code, r.out, r.err, cpus)
	}
	if r = his("-host", "localhost", "--nooversubscribe", "-n", "2", "true"); r.code != 125 || !strings.Contains(r.err, "2 ranks do not fit: there are free slots for only 1 rank") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r = his("--ps", "localhost"); r.code != 0 || !strings.Contains(r.out, id) {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if r = his("--signal", "TERM", id, "localhost"); r.code != 125 || !strings.Contains(r.err, fmt.Sprintf("job %s belongs to another user (uid 0)", id)) {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	mine.end(t).checkSuccess(t)
}

// A change of the cluster file counts at the next attempt of who waits: here the node gets
// a second core for jobs.
func TestClusterFileChangesWhileWaiting(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	cluster := filepath.Join(t.TempDir(), "cluster.toml")
	write := func(text string) {
		if err := os.WriteFile(cluster, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("[[node]]\nname = \"n1\"\nmaxproc = 1\n")
	one := b.startHolding(t, "--cluster", cluster, "-n", "1")
	one.awaitCPUs(t)
	two := b.startHolding(t, "--cluster", cluster, "-n", "1") // at once, and refused
	if r := two.end(t); r.code != 125 || !strings.Contains(r.err, "the host already runs 1 of at most 1 processes") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	w := b.startMpiexec(t, mpiexecCall{args: []string{"--cluster", cluster, "-n", "1", "--wait", "hostname"}})
	b.awaitQueue(t, "n1", 1)
	write("[[node]]\nname = \"n[1-2]\"\n")
	if r := w.wait(t); r.code != 0 || r.out != "n2\n" && r.out != "n1\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	one.end(t).checkSuccess(t)
}

// A rank may launch on the CPUs its own job has, also with --wait, though others wait in the
// queue: they may wait for that very job.
func TestALaunchInsideAJob(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	r, w := inputPipe(t)
	const script = `echo ready; [ $PMI_RANK = 1 ] && exec sleep 1000
		read go
		$0 -host localhost -n 1 --wait sh -c 'grep Cpus_allowed_list: /proc/self/status'
		$0 -host localhost -n 1 -wdir / pwd
		$0 -host n1 -n 1 hostname
		exit 7`
	outer := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "2", "sh", "-c", script, binary}, stdin: r})
	outer.awaitOut(t, "ready", 2)
	waiter := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "2", "--wait", "echo", "next"}})
	b.awaitQueue(t, "localhost", 1)
	fmt.Fprintln(w, "go")
	res := outer.wait(t)
	if res.code != 7 || !strings.Contains(res.out, "Cpus_allowed_list:") || !strings.Contains(res.out, "\n/\n") || !strings.Contains(res.out, "n1\n") {
		t.Errorf("exit %d, %q, %q", res.code, res.out, res.err)
	}
	if res := waiter.wait(t); res.code != 0 || res.out != "next\nnext\n" {
		t.Errorf("exit %d, %q, %q", res.code, res.out, res.err)
	}
}

// Inside of a batch system's job its launches keep apart from each other, and what others claim
// refuses nothing: ranks keep off it while there is room, then share and are not bound (RM-20).
func TestAllocationsAndClaims(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	inside := func(id string, args ...string) holdingJob {
		t.Helper()
		r, w := inputPipe(t)
		env := []string{"SLURM_JOB_ID=" + id, "SLURM_JOB_NODELIST=n1", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2"}
		args = append([]string{"-v", "-launcher", "ssh"}, append(args, "sh", "-c", `grep Cpus_allowed_list: /proc/self/status; exec cat`)...)
		return holdingJob{b.startMpiexec(t, mpiexecCall{args: args, stdin: r, env: env}), w}
	}
	other := b.startHolding(t, "-host", "n1", "-n", "1")
	taken := other.awaitCPUs(t)
	first := inside("7", "-n", "1")
	mine := first.awaitCPUs(t)
	if mine == taken {
		t.Errorf("the launch is on CPU %s, which is claimed, and there is another", mine)
	}
	second := inside("7", "-n", "1")
	if both := second.awaitCPUs(t); both == mine || both == taken {
		t.Errorf("a launch of the same job is on CPU %s alone; its sister on %s, and another job on %s", both, mine, taken)
	}
	if r := b.startMpiexec(t, mpiexecCall{args: []string{"-n", "1", "true"}, env: []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2"}}).wait(t); r.code == 0 {
		t.Error("a third launch in an allocation of two slots started")
	}
	for _, h := range []holdingJob{first, second, other} {
		r := h.end(t)
		if r.code != 0 {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		if told := strings.Contains(r.err, " uses 1 of the 2 CPUs that the batch system granted to this job"); told != (h == second) && runtime.NumCPU() == 2 {
			t.Errorf("told %v: %s", told, r.err)
		}
	}
}
