//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/test/pmixtest"
	"remshell/tools/testbed"
)

// python is the interpreter of Debian's mpi4py, whatever else is called so.
const python = "/usr/bin/python3"

// sharedHostsOptions is for ranks of Open MPI on hosts that are one machine: no host has more ranks than
// CPUs, and all hosts together do. Each host binds its ranks to the same cores, where those that poll
// keep one of another host waiting for half a minute (Linux 6.18).
var sharedHostsOptions = []string{"-genv", "OMPI_MCA_mpi_yield_when_idle", "1", "-bind-to", "none"}

// collLines returns the sorted output of the program coll, for app contexts with these numbers of ranks.
func collLines(universe int, apps ...int) []string {
	lines := []string{"allreduce ok", "alltoall ok", "bcast ok", "split ok"}
	size := 0
	for _, n := range apps {
		size += n
	}
	rank := 0
	for app, n := range apps {
		for range n {
			lines = append(lines, fmt.Sprintf("rank %d of %d, universe %d, appnum %d", rank, size, universe, app))
			rank++
		}
	}
	slices.Sort(lines)
	return lines
}

// The ranks know their world, by whatever option PMIx is offered to them, and with none each
// is alone.
func TestOpenMPIKnowsItsWorld(t *testing.T) {
	t.Parallel()
	coll := mpiProgram(t, "coll.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for _, options := range []string{"", "--pmi pmix", "--pmi both"} {
		args := append(strings.Fields(options), "-hosts", "n1:4", "-n", "4", coll)
		b.runMpiexec(t, args...).checkOutput(t, b, collLines(4, 4))
	}
	r := b.runMpiexec(t, "-hosts", "n1:4", "-n", "1", coll, ":", "-n", "2", coll)
	r.checkOutput(t, b, collLines(4, 1, 2))
	alone := mpiexecCall{env: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
		args: []string{"--pmi", "none", "-hosts", "n1:2", "-n", "2", coll}}
	r = b.startMpiexec(t, alone).wait(t)
	if r.code != 0 || strings.Count(r.out, "rank 0 of 1,") != 2 || !strings.Contains(r.err, "no rank connected to mpiexec by PMI") {
		t.Errorf("--pmi none: exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// A program of MPICH is as before: it gets no word of PMIx.
func TestMPICHGetsNoPMIx(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1", "-n", "1", mpiProgram(t, "misc.mpich4"), "spin", "mpich-and-no-pmix"}})
	r.awaitOut(t, "ready 0", 1)
	var ranks []testbed.Process
	for _, p := range b.processes(t, "n1") {
		if strings.HasSuffix(p.Args[0], "/misc.mpich4") {
			ranks = append(ranks, p)
		}
	}
	if len(ranks) != 1 {
		t.Fatalf("%d ranks", len(ranks))
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", ranks[0].PID))
	if err != nil || strings.Contains(string(environ), "\x00PMIX_") || !strings.Contains(string(environ), "\x00PMI_RANK=0\x00") {
		t.Errorf("%v: %q", err, environ)
	}
}

// What starts the program does not hide it: programs of both families know their size.
func TestProgramsBehindWrappers(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	script := filepath.Join(dir, "wrapper")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hello.openmpi", "hello.mpich4"} {
		hello := mpiProgram(t, name)
		for _, wrapper := range [][]string{{"sh", "-c", `exec "$0"`}, {"env", "A=1"}, {script}, {"numactl", "--localalloc"}} {
			args := slices.Concat([]string{"-hosts", "n1:2", "-n", "2"}, wrapper, []string{hello})
			b.runMpiexec(t, args...).checkOutput(t, b, b.helloLines([]string{"n1"}, 2))
		}
	}
}

// mpi4py, for which the program is an interpreter.
func TestMPIOfPython(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	const script = "from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(1))"
	if _, errs, code := b.runOnHead(t, python, "-c", "import mpi4py"); code != 0 {
		t.Skipf("no mpi4py on this machine; run as root: testdata/install.sh: %s", errs)
	}
	args := slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:1,n2:1", "-n", "2", python, "-c", script})
	b.runMpiexec(t, args...).checkOutput(t, b, []string{"2", "2"})
}

// Over hosts: point to point, collectives, shared memory where ranks share a host.
func TestOpenMPIOverHosts(t *testing.T) {
	t.Parallel()
	hello, coll := mpiProgram(t, "hello.openmpi"), mpiProgram(t, "coll.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(strings.ReplaceAll(b.Names(), ",", ":4\n")+":4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result {
		return b.runMpiexec(t, slices.Concat(sharedHostsOptions, []string{"-f", hosts}, args)...)
	}
	run("-n", "16", hello).checkOutput(t, b, b.helloLines(b.hosts(), 4))
	run("--pmi", "both", "-n", "16", coll).checkOutput(t, b, collLines(16, 16))
}

// One-sided communication, and parameters of Open MPI by option and by variable. Over hosts
// Debian's 4.1.4 makes windows only with pt2pt, also under its own mpirun.
func TestOpenMPIOneSided(t *testing.T) {
	t.Parallel()
	rma := mpiProgram(t, "rma.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	for _, line := range []string{
		"create -hosts n1:2",
		"allocate -hosts n1:2 --mca btl tcp,self,vader",
		"create -hosts n1:1,n2:1 -genv OMPI_MCA_osc pt2pt --mca btl tcp,self",
		"allocate -hosts n1:1,n2:1 --mca osc pt2pt",
	} {
		mode, options, _ := strings.Cut(line, " ")
		args := slices.Concat(sharedHostsOptions, strings.Fields(options), []string{"-n", "2", rma, mode})
		b.runMpiexec(t, args...).checkOutput(t, b, []string{"put ok"})
	}
}

// Names: two halves of a job on two hosts find each other, and an unknown name is an error.
func TestOpenMPINames(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	args := slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:1,n2:1", "-n", "2", mpiProgram(t, "spawn.openmpi"), "names"})
	b.runMpiexec(t, args...).checkOutput(t, b, []string{"accepted 17", "connected 42"})
}

// Ends that are none of the good ones have the code and the cause that they have with PMI.
func TestOpenMPIFails(t *testing.T) {
	t.Parallel()
	misc := mpiProgram(t, "misc.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	for _, test := range []struct {
		mode string
		code int
		says string // once on stderr
	}{
		{"abort 1 7", 7, "rank 1 on n2 called MPI_Abort with code 7"},
		{"abort 1 256", 1, "rank 1 on n2 called MPI_Abort with code 1: the program aborted with code 256"},
		{"quit 1 0", 1, "rank 1 on n2 ended without calling MPI_Finalize"},
		{"quit 1 3", 3, "rank 1 on n2 exited with code 3"},
		{"segv 1", 139, "rank 1 on n2 died: Segmentation fault (signal 11)"},
		{"kill 1 9", 137, "rank 1 on n2 died: Killed (signal 9)"},
		{"exit 1 4", 4, "rank 1 on n2 exited with code 4"},
	} {
		args := slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:1,n2:1", "-n", "2", misc}, strings.Fields(test.mode))
		if r := b.runMpiexec(t, args...); r.code != test.code || strings.Count(r.err, test.says) != 1 {
			t.Errorf("%s: exit %d, want %d and %q once: %s", test.mode, r.code, test.code, test.says, r.err)
		} else if strings.HasPrefix(test.mode, "abort") && strings.Count(r.err, "MPI_ABORT was invoked on rank 1") != 1 {
			t.Errorf("%s: what Open MPI has to say to it is not told once: %s", test.mode, r.err)
		}
	}
}

// What Open MPI has to say to an error is said once, though all ranks of both hosts have it.
func TestOpenMPIHelpTextIsToldOnce(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	r := b.runMpiexec(t, "-hosts", "n1:2,n2:2", "-n", "4", mpiProgram(t, "misc.openmpi"), "send", "all", "99")
	if r.code != 6 || strings.Count(r.err, "MPI_ERR_RANK: invalid rank") != 1 || !strings.Contains(r.err, " printed the same text)") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	r = b.runMpiexec(t, "-genv", "OMPI_MCA_orte_base_help_aggregate", "0", "-hosts", "n1:2,n2:2", "-n", "4", mpiProgram(t, "misc.openmpi"), "send", "all", "99")
	if r.code != 6 || !strings.Contains(r.err, "MPI_ERR_RANK: invalid rank") || strings.Contains(r.err, " printed the same text)") {
		t.Errorf("each for itself: exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// Ranks that we bind are where we say, and Open MPI does not bind them again.
func TestOpenMPIDoesNotBindAgain(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	const script = `grep Cpus_allowed_list /proc/self/status; exec "$0"`
	r := b.runMpiexec(t, "-genv", "OMPI_MCA_hwloc_base_report_bindings", "1", "-bind-to", "core", "-hosts", "n1:2", "-n", "2",
		"sh", "-c", script, mpiProgram(t, "hello.openmpi"))
	var bound []string
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "Cpus_allowed_list") {
			bound = append(bound, line)
		}
	}
	if r.code != 0 || len(bound) != 2 || bound[0] == bound[1] || strings.Contains(r.err, "is not bound") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// A launcher inside of a launcher, ours or Open MPI's, and variables that an outer one left.
func TestOpenMPIInsideOfAnotherLauncher(t *testing.T) {
	t.Parallel()
	hello := mpiProgram(t, "hello.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	want := b.helloLines([]string{testbed.Head}, 2)
	inner := []string{binary, "-hosts", "localhost:2", "-n", "2", hello}
	twice := slices.Concat(want, want)
	slices.Sort(twice)
	b.runMpiexec(t, slices.Concat([]string{"-hosts", "localhost:2", "-n", "2"}, inner)...).checkOutput(t, b, twice)
	outer := []string{"mpirun.openmpi", "--allow-run-as-root", "-n", "1"}
	b.startCommand(t, mpiexecCall{}, slices.Concat(outer, inner)).wait(t).checkOutput(t, b, want)
	left := mpiexecCall{env: []string{"SLURM_PROCID=3", "SLURM_NTASKS=8", "PMIX_SERVER_URI41=outer.0;tcp4://127.0.0.1:9", "PMIX_RANK=3", "PMIX_NAMESPACE=outer"}}
	b.startCommand(t, left, inner).wait(t).checkOutput(t, b, want)
}

// A program of PMIx without MPI: a fence of some, gets that find nothing and gets that wait,
// names that are waited for; on one host, and on two, where ranks fetch cards from each other.
func TestPMIxProgram(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	const line = "rank %d of 4: card of %d, card of %d, never: refused, late: at last, ocean: of rank 0"
	want := []string{fmt.Sprintf(line, 0, 0, 3), fmt.Sprintf(line, 1, 1, 2), fmt.Sprintf(line, 2, 0, 3), fmt.Sprintf(line, 3, 1, 2)}
	for _, hosts := range []string{"n1:4", "n1:2,n2:2"} {
		b.runMpiexec(t, "-hosts", hosts, "-n", "4", mpiProgram(t, "pmix")).checkOutput(t, b, want)
	}
}

// A fence that not all come to in its time is over for all of them, on one host and on two.
func TestPMIxFenceWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("rank %d of 4: late, then all of 4", rank))
	}
	for _, hosts := range []string{"n1:4", "n1:2,n2:2"} {
		b.runMpiexec(t, "-hosts", hosts, "-n", "4", mpiProgram(t, "late")).checkOutput(t, b, want)
	}
}

// Groups that processes make of themselves, on one host and over two: of some of them and of all, each
// with a number of its own.
func TestPMIxGroups(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("rank %d of 4: pair, all, again; numbers differ", rank))
	}
	for _, hosts := range []string{"n1:4", "n1:2,n2:2"} {
		b.runMpiexec(t, "-hosts", hosts, "-n", "4", mpiProgram(t, "groups")).checkOutput(t, b, want)
	}
}

// Ranks that have asked for it hear of an event, on one host and on two, and nobody else.
func TestPMIxEvents(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	var want []string
	for rank, hears := range []string{"-1 to all, of -1", "0 to all, of -1", "0 to all, of -1", "0 to all, of 1"} {
		want = append(want, fmt.Sprintf("rank %d of 4: of %s to us", rank, hears))
	}
	for _, hosts := range []string{"n1:4", "n1:2,n2:2"} {
		b.runMpiexec(t, "-hosts", hosts, "-n", "4", mpiProgram(t, "events")).checkOutput(t, b, want)
	}
}

// --status tells for what the ranks of a program of PMIx wait.
func TestStatusOfPMIxRanks(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:2", "-n", "4", mpiProgram(t, "waits")}})
	id := b.jobID(t)
	var out string
	b.awaitCondition(t, "the table", func() bool {
		out, _, _ = b.runOnHead(t, binary, append([]string{"--status", id}, b.hosts()...)...)
		return strings.Contains(out, "waits for key card of rank 3") && strings.Contains(out, "waits for the published name ocean") &&
			strings.Count(out, "in fence 1 (2 of 2 ranks on this host have entered)") == 2
	}, &out)
	r.cmd.Process.Signal(os.Interrupt)
	r.wait(t)
}

// sendRecorded is what a guest is told when it says recorded messages, on a host, in a job of that one
// rank.
func (b *testCluster) sendRecorded(t *testing.T, messages []pmixtest.Hostile, wrapper ...string) result {
	t.Helper()
	var script strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&script, "%s %x\n", m.Stage, []byte(m.Hex))
	}
	args := slices.Concat([]string{"--pmi", "pmix", "-hosts", "n1", "-n", "1"}, wrapper, []string{bundledProgram(t, "pmixguest"), "say"})
	return b.startMpiexec(t, mpiexecCall{stdin: strings.NewReader(script.String()), args: args}).wait(t)
}

// Messages that are not to be understood are refused, each in its way, and harm nobody but who
// has sent them.
func TestPMIxHostileMessages(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	var refused []pmixtest.Hostile
	var want []string
	for _, m := range pmixtest.Read(t).Hostile {
		if strings.HasPrefix(m.Expect, "rank talks junk") {
			if r := b.sendRecorded(t, []pmixtest.Hostile{m}); r.code != 1 || !strings.Contains(r.err, "sent an invalid PMIx message") {
				t.Errorf("%s: exit %d, %q, %q", m.What, r.code, r.out, r.err)
			}
			continue
		}
		refused = append(refused, m)
		answer, _, _ := strings.Cut(m.Expect, ",")
		want = append(want, strings.Replace(answer, "close", "closed", 1))
	}
	r := b.sendRecorded(t, refused)
	got := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if r.code != 0 || len(got) != len(want) {
		t.Fatalf("exit %d, %d answers, want %d: %q", r.code, len(got), len(want), r.err)
	}
	for i, m := range refused {
		if got[i] != want[i] {
			t.Errorf("%s: %q, want %q", m.What, got[i], want[i])
		}
	}
}

// Another user who knows all that a rank knows is refused, whatever he says he is.
func TestPMIxAndAnotherUser(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	r := b.sendRecorded(t, []pmixtest.Hostile{{Stage: "message"}}, "setpriv", "--reuid=4242", "--regid=4242", "--clear-groups")
	if r.code != 1 || !strings.Contains(r.err, "a handshake that is right: status -12") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// So many connections that say nothing do not keep a rank from its work.
func TestPMIxConnectionsThatSayNothing(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	args := []string{"--pmi", "pmix", "-hosts", "n1:1", "-n", "1", bundledProgram(t, "pmixguest"), "hold", "10000", mpiProgram(t, "coll.openmpi")}
	b.runMpiexec(t, args...).checkOutput(t, b, collLines(1, 1))
}
