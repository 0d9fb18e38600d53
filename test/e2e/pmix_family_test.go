//go:build linux

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// These are processes that were spawned and what else PMIx serves: names, groups, places. Programs
// of PMIx alone, and those of Open MPI.

// runFamily runs testdata/pmix/family.c.
func (b *testCluster) runFamily(t *testing.T, hosts, mode string, more ...string) result {
	t.Helper()
	return b.runMpiexec(t, slices.Concat([]string{"-hosts", hosts, "-n", "2", mpiProgram(t, "family"), mode}, more)...)
}

// The node rank of a spawned rank counts the job's ranks on its node from the first on (pmix.nrank), also in
// the words of its environment, on every node.
func TestNodeRanksOfSpawnedRanks(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.runFamily(t, "n1:8", "place", "2").checkOutput(t, b, []string{
		"child 0 of 2 on n1: node rank 2", "child 1 of 2 on n1: node rank 3", "place 2: spawned"})
	b.runFamily(t, "n1:2,n2:2", "place", "2").checkOutput(t, b, []string{
		"child 0 of 2 on n2: node rank 0", "child 1 of 2 on n2: node rank 1", "place 2: spawned"})
	b.runFamily(t, "n1:1,n2:2", "place", "1").checkOutput(t, b, []string{"child 0 of 1 on n2: node rank 1", "place 1: spawned"})
	const script = `echo "$OMPI_COMM_WORLD_NODE_RANK of $OMPI_COMM_WORLD_RANK"; exec "$0" "$@"`
	r := b.runMpiexec(t, "-hosts", "n1:8", "-n", "2", "sh", "-c", script, mpiProgram(t, "family"), "place", "1")
	r.checkOutput(t, b, []string{"0 of 0", "1 of 1", "child 0 of 1 on n1: node rank 2", "place 1: spawned"})
}

// Names go between two groups that were spawned, on one host and over two: with PMIx, whose look-up waits,
// and with MPI, whose groups then meet.
func TestNamesBetweenSpawnedGroups(t *testing.T) {
	t.Parallel()
	cousins := mpiProgram(t, "spawn.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	for _, hosts := range []string{"n1:8", "n1:3,n2:3"} {
		b.runFamily(t, hosts, "names", "2").checkOutput(t, b, []string{"names: 2 of the second know what the first has"})
		args := slices.Concat(sharedHostsOptions, []string{"-hosts", hosts, "-n", "2", cousins, "cousins", "2"})
		b.runMpiexec(t, args...).checkOutput(t, b, []string{"cousins: 2 and 2, sum 6"})
	}
}

// A rank and those that it has spawned make a group of PMIx, on one host and over two.
func TestPMIxGroupOfParentAndChildren(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	for _, hosts := range []string{"n1:8", "n1:2,n2:2"} {
		b.runFamily(t, hosts, "group", "2").checkOutput(t, b, []string{"group of 3: the same number; unmade"})
	}
}

// The time of a group that is made, or unmade, can be over; then it is tried again. On one host and on two.
func TestPMIxGroupWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("rank %d of 4: late, then a group of 4; late, then unmade", rank))
	}
	for _, hosts := range []string{"n1:4", "n1:2,n2:2"} {
		b.runMpiexec(t, "-hosts", hosts, "-n", "4", mpiProgram(t, "late"), "group").checkOutput(t, b, want)
	}
}

// A spawnFault is how a job of Open MPI that has spawned ends before its time.
type spawnFault struct {
	name             string
	hit              func(t *testing.T, b *testCluster, r *runningJob)
	code             int
	cleanedByNextJob bool // what is left goes with the next job there: nobody lived to remove it
}

// signalOnN2 hits what is called so on n2, where the spawned ranks are.
func signalOnN2(is func(p testbed.Process) bool, signals ...syscall.Signal) func(*testing.T, *testCluster, *runningJob) {
	return func(t *testing.T, b *testCluster, _ *runningJob) {
		t.Helper()
		var found []int
		for _, p := range b.processes(t, "n2") {
			if len(p.Args) > 1 && is(p) {
				found = append(found, p.PID)
			}
		}
		for _, signal := range signals {
			signalPIDs(t, signal, "such process on n2", found[:min(1, len(found))])
		}
	}
}

func isSpawned(p testbed.Process) bool { return strings.HasSuffix(p.Args[0], "/spawn.openmpi") }
func isHelper(p testbed.Process) bool  { return isHelperArgs(p.Args) }
func isReaper(p testbed.Process) bool  { return isReaperArgs(p.Args) }

// Whatever ends a job of Open MPI that has spawned on another host leaves nothing there: no process, no
// session directory, no segment of shared memory.
func TestNothingIsLeftOfSpawnedOpenMPI(t *testing.T) {
	t.Parallel()
	program, hello := mpiProgram(t, "spawn.openmpi"), mpiProgram(t, "hello.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	signal := func(signal os.Signal) func(*testing.T, *testCluster, *runningJob) {
		return func(_ *testing.T, _ *testCluster, r *runningJob) { r.cmd.Process.Signal(signal) }
	}
	both := func(t *testing.T, b *testCluster, r *runningJob) { // neither has the time to do anything about the other
		signalOnN2(isHelper, syscall.SIGSTOP)(t, b, r)
		signalOnN2(isReaper, syscall.SIGKILL)(t, b, r)
		signalOnN2(isHelper, syscall.SIGKILL)(t, b, r)
	}
	for _, f := range []spawnFault{
		{"a rank is killed", signalOnN2(isSpawned, syscall.SIGKILL), 137, false},
		{"a helper is killed", signalOnN2(isHelper, syscall.SIGKILL), 125, false},
		{"helper and reaper are killed", both, 125, true},
		{"mpiexec is killed", signal(syscall.SIGKILL), 137, false},
		{"^C", signal(os.Interrupt), 130, false},
	} {
		r := b.startMpiexec(t, mpiexecCall{args: slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:2,n2:2", "-n", "2", program, "hold", "2"})})
		r.awaitOut(t, "ready\n", 4)
		for _, host := range []string{"n1", "n2"} {
			if b.sessionDirs(t, host) == "" {
				t.Errorf("%s: no session directory on %s", f.name, host)
			}
		}
		f.hit(t, b, r)
		if got := r.wait(t); got.code != f.code {
			t.Errorf("%s: exit %d, want %d: %s", f.name, got.code, f.code, got.err)
		}
		if f.cleanedByNextJob {
			b.runMpiexec(t, slices.Concat(sharedHostsOptions, []string{"-hosts", "n1:1,n2:1", "-n", "2", hello})...).checkOutput(t, b, b.helloLines([]string{"n1", "n2"}, 1))
		}
		b.awaitClean(t, 5*time.Minute)
	}
	r := b.runMpiexec(t, slices.Concat(sharedHostsOptions, []string{"-timeout", "1", "-hosts", "n1:2,n2:2", "-n", "2", program, "hold", "2"})...)
	if r.code != 124 {
		t.Errorf("-timeout: exit %d: %s", r.code, r.err)
	}
	b.awaitClean(t, 5*time.Minute)
}

// What spawned ranks wait for is told by --status, and by the table that -timeout prints too (PMIX-65). The test of
// the feature transcript has what --pmi-trace tells of them.
func TestStatesOfSpawnedPMIxRanks(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:3", "-n", "2", mpiProgram(t, "family"), "wait", "3"}})
	id := b.jobID(t)
	states := []string{`\n *(1:0|2) +n2 +(\d+ +)?waits for key card of rank 2 `, `\n *(1:1|3) +n2 +(\d+ +)?waits for the published name sea `, `\n *(1:2|4) +n2 +(\d+ +)?in fence 1 \(1 of 3 ranks have entered\) `}
	all := func(text string) bool {
		return !slices.ContainsFunc(states, func(state string) bool { return !regexp.MustCompile(state).MatchString(text) })
	}
	var out string
	b.awaitCondition(t, "the table", func() bool {
		out, _, _ = b.runOnHead(t, binary, append([]string{"--status", id}, b.hosts()...)...)
		return all("\n" + out)
	}, &out)
	r.cmd.Process.Signal(os.Interrupt)
	r.wait(t)
}

// So many ranks on one host; Open MPI is told that they share CPUs. With MPI, whose
// ring takes its time on few CPUs, only with E2E_LONG.
func TestManyPMIxRanksOnOneHost(t *testing.T) {
	t.Parallel()
	const ranks = 256
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	hosts := []string{"-hosts", fmt.Sprintf("n1:%d", ranks), "-n", fmt.Sprint(ranks)}
	script := `[ $PMIX_RANK != 7 ] || echo "crowded: $OMPI_MCA_mpi_oversubscribe"; exec "$0" "$@"`
	r := b.runMpiexec(t, slices.Concat(hosts, []string{"sh", "-c", script, mpiProgram(t, "groups")})...)
	want := []string{"crowded: 1"}
	for rank := range ranks {
		want = append(want, fmt.Sprintf("rank %d of %d: pair, all, again; numbers differ", rank, ranks))
	}
	slices.Sort(want)
	r.checkOutput(t, b, want)
	if os.Getenv("E2E_LONG") != "" {
		b.runMpiexec(t, slices.Concat(hosts, []string{mpiProgram(t, "hello.openmpi")})...).checkOutput(t, b, b.helloLines([]string{"n1"}, ranks))
	}
}

// A job whose ranks wait for each other by PMI and by PMIx ends, and says why: whether they are two sections, or what two hosts
// have (PMIX-4).
func TestTwoMPILibrariesInOneJob(t *testing.T) {
	t.Parallel()
	mpich, ompi := mpiProgram(t, "hello"), mpiProgram(t, "hello.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	const both = " they cannot be in one MPI_COMM_WORLD"
	sections := []string{"-n", "1", mpich, ":", "-n", "1", ompi}
	script := fmt.Sprintf(`[ $MPIEXEC_NODE_RANK = 0 ] && exec %s; exec %s`, mpich, ompi)
	apart := fmt.Sprintf("  hint      start two jobs, one for %s and one for %s, or build both with the same MPI library\n", mpich, ompi)
	for _, test := range []struct {
		name      string
		args      []string
		who       string
		pmi, hint string
	}{
		{"two sections on a host", slices.Concat([]string{"-hosts", "n1:4"}, sections), "rank 1 on n1 (app context 2: " + ompi + ") uses PMIx", "rank 0 on n1 (app context 1: " + mpich + ") uses PMI,", apart},
		{"two sections on two hosts", slices.Concat([]string{"-hosts", "n1:1,n2:1"}, sections), "rank 1 on n2 (app context 2: " + ompi + ") uses PMIx", "rank 0 on n1 (app context 1: " + mpich + ") uses PMI,", apart},
		{"what two hosts have", []string{"-hosts", "n1:1,n2:1", "-n", "2", "sh", "-c", script}, "rank 1 on n2 (sh) uses PMIx", "rank 0 on n1 (sh) uses PMI,",
			"  hint      all hosts need the same MPI library: the library on n1 uses PMI, but the library on n2 uses PMIx\n"},
	} {
		r := b.runMpiexec(t, test.args...)
		if r.code != 1 || strings.Count(r.err, both) != 1 || !strings.Contains(r.err, test.pmi) || !strings.Contains(r.err, test.who) || !strings.Contains(r.err, test.hint) {
			t.Errorf("%s: exit %d: %s", test.name, r.code, r.err)
		}
	}
}

// Ranks that run a program of one MPI library and then one of another wait for nobody in vain, and a program without MPI may stand
// beside either (PMIX-4).
func TestTwoMPILibrariesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	mpich, ompi := mpiProgram(t, "hello"), mpiProgram(t, "hello.openmpi")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	twice := fmt.Sprintf("%s && %s", mpich, ompi)
	r := b.runMpiexec(t, "-hosts", "n1:1,n2:1", "-n", "2", "sh", "-c", twice)
	hello := b.helloLines([]string{"n1", "n2"}, 1)
	want := slices.Concat(hello, hello)
	slices.Sort(want)
	r.checkOutput(t, b, want)
	for _, program := range []string{mpich, ompi} {
		r := b.runMpiexec(t, "-hosts", "n1:2", "-n", "1", program, ":", "-n", "1", "true")
		if r.code != 1 || !strings.Contains(r.err, "rank 0 waits in a barrier, but rank 1 has ended without entering it") {
			t.Errorf("%s beside true: exit %d: %s", program, r.code, r.err)
		}
	}
}

// A user's own page of Open MPI holds on his hosts, and we leave it as it is (PMIX-9).
func TestParametersOfAUsersPage(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	const page = ".openmpi/mca-params.conf"
	before := b.runOn(t, "n1", "sh", "-c", "cd && mkdir -p .openmpi && echo 'hwloc_base_report_bindings = 1' >"+page+" && chmod 444 "+page+" && ls -l --time-style=full-iso "+page)
	r := b.runMpiexec(t, "-bind-to", "core", "-hosts", "n1:1", "-n", "1", mpiProgram(t, "hello.openmpi"))
	if got := sortedLines(r.out); r.code != 0 || !slices.Equal(got, b.helloLines([]string{"n1"}, 1)) || !strings.Contains(r.err, "MCW rank 0") {
		t.Errorf("exit %d, %q, %q", r.code, got, r.err)
	}
	if after := b.runOn(t, "n1", "sh", "-c", "cd && ls -l --time-style=full-iso "+page); after != before {
		t.Errorf("the page is %q, and was %q", after, before)
	}
}

// A spawn says how its ranks are mapped, with PMIx and with MPI, and what it may not say is refused in words
// (pmix-wire.md 6.9).
func TestLayoutOfASpawn(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	hosts := []string{"-hosts", "n1:4,n2:4", "--map-by", "node", "-n", "2"}
	place := func(keys ...string) result {
		return b.runMpiexec(t, slices.Concat(hosts, []string{mpiProgram(t, "family"), "place", "2"}, keys)...)
	}
	together := []string{"child 0 of 2 on n1: node rank 1", "child 1 of 2 on n1: node rank 2", "place 2: spawned"}
	apart := []string{"child 0 of 2 on n1: node rank 1", "child 1 of 2 on n2: node rank 1", "place 2: spawned"}
	place().checkOutput(t, b, apart) // as the job
	place("pmix.mapby", "slot").checkOutput(t, b, together)
	place("pmix.mapby", "node").checkOutput(t, b, apart)
	place("pmix.ppr", "1:node").checkOutput(t, b, apart)
	if r := place("pmix.mapby", "core:pe=2"); r.code != 0 || r.out != "place 2: refused\n" || !strings.Contains(r.err, `"core:pe=2" is not allowed in a spawn`) {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	args := slices.Concat(sharedHostsOptions, hosts, []string{mpiProgram(t, "spawn.openmpi"), "try", "map_by", "slot", "2"})
	r := b.runMpiexec(t, args...)
	if r.code != 0 || strings.Count(r.out, " on n1,") != 2 {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}
