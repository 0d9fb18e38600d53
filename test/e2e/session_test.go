//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// withoutLines returns lines that do not begin like this, such as notices.
func withoutLines(text, prefix string) string {
	var rest []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}

// Issue 5, done when 2: MPICH 3.4.1 spawns, publishes, connects and disconnects across
// three hosts.
func TestMPIPrograms(t *testing.T) {
	t.Parallel()
	spawn := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	child := func(n, parents, app int, host string) string {
		sum := n*(n+1)/2 + parents*(parents+1)/2
		return fmt.Sprintf("children: %d of %d parents, appnum %d on %s, sum %d", n, parents, app, host, sum)
	}
	parents := func(n, children int) string {
		return fmt.Sprintf("parents: %d and %d children, sum %d", n, children, n*(n+1)/2+children*(children+1)/2)
	}
	for _, test := range []struct {
		hosts, args string
		n           int
		want        []string
	}{
		{"n1:1,n2:1,n3:1", "one 1", 2, []string{parents(2, 1), child(1, 2, 0, "n3")}},
		{"n1:1,n2:2,n3:2", "one 3", 2, []string{parents(2, 3), child(3, 2, 0, "n2"), child(3, 2, 0, "n3"), child(3, 2, 0, "n3")}},
		{"n1:2,n2:1,n3:1", "many 1 1", 2, []string{parents(2, 2), child(2, 2, 0, "n2"), child(2, 2, 1, "n3")}},
		{"n1:1,n2:1,n3:1", "nested 2", 1, []string{parents(1, 1), child(1, 1, 0, "n2"), parents(1, 1), child(1, 1, 0, "n3")}},
		{"n1:3,n2:3,n3:3", "host n3 2", 1, []string{parents(1, 2), child(2, 1, 0, "n3"), child(2, 1, 0, "n3")}},
		{"n1:1,n2:1,n3:1", "names", 2, []string{"accepted 17", "connected 42"}},
	} {
		args := append([]string{"-hosts", test.hosts, "-n", fmt.Sprint(test.n), spawn}, strings.Fields(test.args)...)
		r := b.runMpiexec(t, args...)
		slices.Sort(test.want)
		if got := sortedLines(r.out); r.code != 0 || r.err != "" || !slices.Equal(got, test.want) {
			t.Errorf("%s on %s: exit %d, %q\n got %q\nwant %q", test.args, test.hosts, r.code, r.err, got, test.want)
		}
	}
	r := b.runMpiexec(t, "-hosts", "n1:1,n2:1,n3:2", "-n", "2", spawn, "missing")
	if r.code != 0 || r.out != "spawn: refused\n" || !strings.Contains(r.err, "program /nowhere/at/all: no such file") {
		t.Errorf("missing: exit %d, %q, %q", r.code, r.out, r.err)
	}
	r = b.runMpiexec(t, "-hosts", "n1:1,n2:1,n3:2", "-n", "2", spawn, "abort", "7")
	if r.code != 7 || !strings.Contains(r.err, "mpiexec: rank 1:1 on n3 called MPI_Abort with code 7") {
		t.Errorf("abort: exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// Issue 5, done when 2: what spawns say on PMI, over three hosts.
func TestSpawnOverThreeHosts(t *testing.T) {
	t.Parallel()
	program := bundledProgram(t, "pmitalk")
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	env := []string{
		"TALK_child=hello; get parent", "TALK_inner=hello; spawn 1 last", "TALK_last=hello; get parent; publish end p", "TALK_meet=0: put k v; barrier; 2: get k; barrier",
		"TALK_fail=0: await go; 0: abort 5 enough; hang", "TALK_pair=0: publish done p; 1: await done",
	}
	place := func(rank, size, app int, host string) string {
		return fmt.Sprintf("rank %d of %d, appnum %d on %s, spawned", rank, size, app, host)
	}
	for _, test := range []struct {
		hosts, script string
		want          []string // on stdout and stderr; KVS stands for the name of the first group
		code          int
	}{
		{"n1:1,n2:1,n3:1", "spawn 2 child", []string{"spawn", place(0, 2, 0, "n2"), place(1, 2, 0, "n3"), "get parent: KVS", "get parent: KVS"}, 0},
		{"n1:1,n2:1,n3:2", "spawn 1 child + 2 child", []string{"spawn", place(0, 3, 0, "n2"), place(1, 3, 1, "n3"), place(2, 3, 1, "n3"),
			"get parent: KVS", "get parent: KVS", "get parent: KVS"}, 0},
		{"n1:1,n2:1,n3:1", "spawn 1 inner; await end", []string{"spawn", place(0, 1, 0, "n2"), "spawn", place(0, 1, 0, "n3"), "get parent: KVS_1", "publish end", "await end: p"}, 0},
		{"n1:4,n2:4,n3:4", "spawn 3 meet host=n3,n1", []string{"spawn", "get k: v"}, 0},
		{"n1:2 --spawn-hosts n4", "spawn 1 child host=n4", []string{"spawn", place(0, 1, 0, "n4"), "get parent: KVS",
			"mpiexec: n4 now belongs to the job, because rank 0 on n1 requested it (--spawn-hosts n4)"}, 0},
		{"n1:2,n2:2", "spawn 2 pair host=n2; await done", []string{"await done: p", "await done: p", "publish done", "spawn"}, 0},
		{"n1:1,n2:1", "spawn 1 child program=/no/where", []string{"spawn failed: n2__program__no_where__no_such_file_or_directory",
			"mpiexec: rank 0 on n1: spawn -n 1 /no/where @child: n2: program /no/where: no such file or directory"}, 0},
		{"n1:1,n2:1", "spawn 2 child", []string{"spawn", place(0, 2, 0, "n1"), place(1, 2, 0, "n2"), "get parent: KVS", "get parent: KVS",
			"mpiexec: rank 0 on n1 spawns ranks, but no CPUs are free; they share the CPUs of the job (--nooversubscribe forbids that)"}, 0},
		{"n1:1,n2:1 --nooversubscribe", "spawn 2 child", []string{"spawn failed: 2_ranks_do_not_fit__there_are_free_slots_for_only_1_rank_on_1_node__n2_",
			"mpiexec: rank 0 on n1: spawn -n 2 PROGRAM @child: 2 ranks do not fit: there are free slots for only 1 rank on 1 node (n2)"}, 0},
		{"n1:1,n2:2", "spawn 2 fail; tell go; hang", []string{"spawn", "await go: told", "mpiexec: rank 1:0 on n2 called MPI_Abort with code 5: enough"}, 5},
	} {
		r := b.startMpiexec(t, mpiexecCall{env: env, args: append(strings.Fields("-hosts "+test.hosts), "-n", "1", program, "env MPIEXEC_JOBID; "+test.script)}).wait(t)
		got := sortedLines(strings.ReplaceAll(r.out+withoutLines(r.err, "  "), program, "PROGRAM"))
		var id string
		for _, line := range got {
			if rest, ok := strings.CutPrefix(line, "env MPIEXEC_JOBID: "); ok {
				id = rest
			}
		}
		want := append(test.want, "env MPIEXEC_JOBID: KVS")
		slices.Sort(want)
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], id, "KVS")
		}
		if slices.Sort(got); r.code != test.code || !slices.Equal(got, want) {
			t.Errorf("%s on %s: exit %d\n got %q\nwant %q", test.script, test.hosts, r.code, got, want)
		}
	}
}

// Issue 5, done when 2: Slurm's libpmi2 as client, on one host and several.
func TestPMI2Program(t *testing.T) {
	program := mpiProgram(t, "pmi2")
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	for hosts, n := range map[string]int{"n1:4": 4, "n1:1,n2:3,n3:2": 6, "n1:1,n2:1": 2} {
		r := b.runMpiexec(t, "-hosts", hosts, "-n", fmt.Sprint(n), program)
		if want := fmt.Sprintf("pmi2: %d ranks, all as it should be\n", n); r.code != 0 || r.out != want {
			t.Errorf("%s: exit %d, %q, %q", hosts, r.code, r.out, r.err)
		}
	}
}

// Issue 5, done when 1: layouts that tell MPI who shares a node, which it then believes.
func TestLayouts(t *testing.T) {
	t.Parallel()
	hello := mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	if err := b.AddAlias("n1", "other"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		line  string
		nodes string // of each rank
	}{
		{"-hosts n1:1,n2:3,n3:2 -n 6 HELLO", "122233"},
		{"-hosts n1:2,n2:2,n3:2 -rr -n 6 HELLO", "123123"},
		{"-hosts n1:1,n2:2,other:1 -n 4 HELLO", "1122"},
		{"-host n2:2 -n 2 HELLO : -host n1:1 -n 1 HELLO : -host n3:3 -n 3 HELLO", "221333"},
		{"-hosts n1:1,n2:1,n3:1 -rankmap 0,1,1,2,0 --overbook -n 5 HELLO", "12231"},
	} {
		words := strings.Fields(strings.ReplaceAll(test.line, "HELLO", hello))
		r := b.runMpiexec(t, words...)
		var want []string
		local := make(map[rune]int)
		for rank, node := range test.nodes {
			want = append(want, fmt.Sprintf("rank %d of %d on n%c, local %d of %d", rank, len(test.nodes), node, local[node], strings.Count(test.nodes, string(node))))
			local[node]++
		}
		want = append(want, "ring ok", "allreduce ok")
		slices.Sort(want)
		if got := sortedLines(r.out); r.code != 0 || withoutLines(r.err, "mpiexec: n1 and other are the same machine") != "" || !slices.Equal(got, want) {
			t.Errorf("%s: exit %d, %q\n got %q\nwant %q", test.line, r.code, r.err, got, want)
		}
	}
}

// What is spawned has claims of its own: other jobs see them and keep off as long as its
// ranks live, and find the CPUs free when they have ended, though the job goes on.
func TestSpawnedRanksHaveClaimsWhileTheyLive(t *testing.T) {
	t.Parallel()
	talk := bundledProgram(t, "pmitalk")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	r, w := inputPipe(t)
	const script = `$0 'spawn 2 child'; echo stays; read go; $0 'tell go'; cat`
	parent := b.startMpiexec(t, mpiexecCall{stdin: r, env: []string{"TALK_child=hello; await go"},
		args: []string{"-hosts", "n1:1,n2:2", "-n", "1", "sh", "-c", script, talk}})
	parent.awaitOut(t, "spawned\n", 2)
	parent.awaitOut(t, "stays\n", 1)
	id := b.checkClaims(t, "", "  n1  rank 0 ", "  n2  ranks 1-2 ")
	if r := b.runMpiexec(t, "--ps", "n2"); !strings.Contains(r.out, "  3      n2+1 ") {
		t.Errorf("a job of three ranks, one of them on n1, is shown as %s", r.out)
	}
	if r := b.runMpiexec(t, "-hosts", "n2", "--exclusive", "-n", "1", "hostname"); r.code != 125 || !strings.Contains(r.err, "not idle") {
		t.Errorf("beside what was spawned: exit %d, %q, %q", r.code, r.out, r.err)
	}
	fmt.Fprintln(w, "go")
	parent.awaitOut(t, "await go: told\n", 2)
	b.noClaims(t, "n2")
	b.runMpiexec(t, "-hosts", "n2", "--exclusive", "-n", "1", "hostname").checkSuccess(t)
	b.checkClaims(t, id, "  n1  rank 0 ")
	w.Close()
	parent.wait(t).checkExit0(t)
	b.noClaims(t, "n1")
}

// checkClaims asserts that n1 and n2 have one job, of that id if one is given, and that its
// claims are those that begin so. It returns its id.
func (b *testCluster) checkClaims(t *testing.T, id string, claims ...string) string {
	t.Helper()
	l := b.readListing(t, "n1", "n2")
	if len(l.Jobs) != 1 || id != "" && l.Jobs[0].Job != id {
		t.Fatalf("listed %+v, want one, %s", l, id)
	}
	r := b.runMpiexec(t, "--status", l.Jobs[0].Job, "n1,n2")
	var got []string
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "  ") {
			got = append(got, line)
		}
	}
	same := slices.EqualFunc(got, claims, strings.HasPrefix)
	if r.checkSuccess(t); !same {
		t.Errorf("it claims %q, want %q", got, claims)
	}
	return l.Jobs[0].Job
}
