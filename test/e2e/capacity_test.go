//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remshell/idset"
	"remshell/tools/testbed"
)

// What ranks take of hosts, and which hosts they may take (which-hosts.md 9 to 11), seen from inside.

// clusterOf writes a cluster file with this text and returns its path.
func clusterOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// boundCPUs runs a job and tells host and CPUs of its ranks, "n1:0 n1:1 n2:0"; what they have of CPUs and
// memory, by the kernel's word, is what the plan gave them.
func (b *testCluster) boundCPUs(t *testing.T, args ...string) string {
	t.Helper()
	var lines, seats []string
	for _, p := range b.planRanks(t, mpiexecCall{args: args}) {
		lines = append(lines, p.line(p.Node, ""))
		seats = append(seats, p.Node+":"+idset.Text(p.CPUs))
	}
	r := b.runMpiexec(t, append(slices.Clone(args), "sh", "-c", bindingProgram)...)
	r.checkSuccess(t)
	told := slices.Collect(strings.Lines(r.out))
	slices.SortFunc(told, func(a, b string) int { return rankOf(a) - rankOf(b) })
	if !slices.Equal(told, lines) {
		t.Errorf("%q: ranks say\n%q, the plan\n%q", args, told, lines)
	}
	return strings.Join(seats, " ")
}

// hostsOfBindings are those of seats.
func hostsOfBindings(seats string) string {
	var names []string
	for _, seat := range strings.Fields(seats) {
		name, _, _ := strings.Cut(seat, ":")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// Overflow hosts are for jobs that do not fit on all others, which wait rather than use them; what
// is in reserve there stays idle.
func TestOverflowHosts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	cluster := clusterOf(t, `
[[region]]
name = "main"
signature = "ap"
[[region]]
name = "overflow"
signature = "os su ap"
gateWidth = "auto"
[[node]]
name = "n[1-2]"
id = 1
[[node]]
name = "n3"
id = 3
flavors = ["os", "su", "ap"]
reserve = 1
`)
	cpus := b.countCores(t, cluster)
	if cpus < 2 {
		t.Skip("with one CPU in reserve a host of one CPU has none")
	}
	with := func(n int, more ...string) []string {
		return append([]string{"--cluster", cluster, "-n", strconv.Itoa(n)}, more...)
	}
	other := b.startHolding(t, with(1, "--nodes", "1")...)
	other.awaitCPUs(t)
	refused := b.runMpiexec(t, with(2*cpus, "hostname")...)
	if want := fmt.Sprintf("n3: region overflow is for jobs of more than %d CPUs, but this job needs %d CPUs", 2*cpus, 2*cpus); refused.code != 125 || !strings.Contains(refused.err, want) {
		t.Errorf("beside another job: exit %d, %s; want %s", refused.code, refused.err, want)
	}
	waiting := b.startMpiexec(t, mpiexecCall{args: with(2*cpus, "--wait", "hostname")})
	b.awaitQueue(t, "n1", 1)
	other.end(t).checkSuccess(t)
	r := waiting.wait(t)
	if r.code != 0 || strings.Count(r.out, "n1") != cpus || strings.Count(r.out, "n2") != cpus {
		t.Errorf("after the other job: exit %d, %s%s", r.code, r.out, r.err)
	}
	most := b.boundCPUs(t, with(3*cpus-1)...)
	if want := repeatHost("n1", cpus) + " " + repeatHost("n2", cpus) + " " + repeatHost("n3", cpus-1); hostsOfBindings(most) != want {
		t.Errorf("all there is: %s; want %s", most, want)
	}
	last := b.boundCPUs(t, with(2*cpus+1)...)
	if hostsOfBindings(last) != repeatHost("n1", cpus)+" "+repeatHost("n2", cpus)+" n3" || !strings.HasPrefix(most, last) {
		t.Errorf("one rank more than fits on the others: %s", last)
	}
	if r := b.runMpiexec(t, with(3*cpus, "hostname")...); r.code != 125 || r.out != "" {
		t.Errorf("the reserve: exit %d, %s%s", r.code, r.out, r.err)
	}
	// The hosts that a list does not name count for the gate.
	if r := b.runMpiexec(t, with(cpus, "--nodes", "1,3", "--exclusive", "hostname")...); r.code != 0 || strings.Count(r.out, "n1") != cpus {
		t.Errorf("a list: exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, with(cpus+1, "--nodes", "1,3", "hostname")...); r.code != 125 || !strings.Contains(r.err, "n3: region") {
		t.Errorf("a list without n2: exit %d, %s%s", r.code, r.out, r.err)
	}
}

// Neighbours are hosts in a row, with no busy one between them.
func TestNeighbouringHosts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	cluster := clusterOf(t, "[[node]]\nname = \"n[1-4]\"\nid = 1\n")
	cpus := b.countCores(t, cluster)
	with := func(n int, more ...string) []string {
		return append([]string{"--cluster", cluster, "-n", strconv.Itoa(n)}, more...)
	}
	other := b.startHolding(t, with(cpus, "--nodes", "2", "--restart", "1", "--ckpt-signal", "USR1")...)
	other.awaitOut(t, "\n", cpus)
	if got := b.boundCPUs(t, with(cpus, "--contiguous")...); hostsOfBindings(got) != repeatHost("n1", cpus) {
		t.Errorf("as many as n1 holds: %s", got)
	}
	if got := b.boundCPUs(t, with(cpus+1, "--contiguous=best")...); hostsOfBindings(got) != repeatHost("n3", cpus)+" n4" {
		t.Errorf("one more: %s", got)
	}
	if got := b.boundCPUs(t, with(cpus+1)...); hostsOfBindings(got) != repeatHost("n1", cpus)+" n3" {
		t.Errorf("no neighbours: %s", got)
	}
	r := b.runMpiexec(t, with(2*cpus+1, "--contiguous", "hostname")...)
	if want := fmt.Sprintf("there are no contiguous nodes for %d ranks: contiguous nodes have room for at most %d ranks (n[3-4]), and all nodes together for %d", 2*cpus+1, 2*cpus, 3*cpus); r.code != 125 || !strings.Contains(r.err, want) {
		t.Errorf("too many: exit %d, %s; want %s", r.code, r.err, want)
	}
	if want := " of root on n2 (mpiexec can move it)"; !strings.Contains(r.err, want) || !strings.Contains(r.err, "mpiexec --migrate ") {
		t.Errorf("who is in the way: %s; want %s", r.err, want)
	}
	// n2 and n3 are neighbours, whatever list names them, and n1 and n3 are not.
	if r := b.runMpiexec(t, with(cpus+1, "-host", "n1,n3", "--contiguous", "hostname")...); r.code != 125 || !strings.Contains(r.err, "no contiguous nodes") {
		t.Errorf("a list: exit %d, %s%s", r.code, r.out, r.err)
	}
	other.end(t).checkSuccess(t)
	if got := b.boundCPUs(t, with(3, "--shape", "1")...); hostsOfBindings(got) != "n1 n2 n3" {
		t.Errorf("one on each: %s", got)
	}
}

// A host has as many ranks as there are huge pages for, and none without; ranks are told what was said of that, and how much
// memory is theirs. (The files of the hosts are made up: no kernel sets pages apart for it.)
func TestHugePages(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	const made = `printf 'MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\nHugePages_Total: 9\nHugePages_Free: %d\nHugepagesize: 2048 kB\n' "$1" >/run/meminfo
mount --bind /run/meminfo /proc/meminfo`
	b.runOn(t, "n1", "sh", "-ec", made, "sh", "1")
	b.runOn(t, "n2", "sh", "-ec", made, "sh", "5")
	said := []string{"sh", "-c", "echo $MPIEXEC_HOST $MPIEXEC_MEM_PER_RANK ${MPIEXEC_HUGEPAGES-no}"}
	for _, test := range []struct{ args, want string }{
		{"-host n1:4,n2:4 -n 2 --mem-per-rank 3hs", "n2 3 need;n2 3 need"},
		{"-host n1:4,n2:4 -n 3 --mem-per-rank 2hs", "n1 2 need;n2 2 need;n2 2 need"},
		{"-host n1:4,n2:4 -n 2 --mem-per-rank 3h", "n1 3 want;n1 3 want"},
		{"--aprun -q --shape 1 -L n1,n2 -n 2 -m 2hs", "n1 2 need;n2 2 need"},
		{"-host n1:2,n2:4 -n 3", "n1 4096 no;n1 4096 no;n2 8192 no"},
	} {
		r := b.runMpiexec(t, append(strings.Fields(test.args), said...)...)
		r.checkSuccess(t)
		if got := strings.Join(sortedLines(r.out), ";"); got != test.want {
			t.Errorf("%s: %s; want %s", test.args, got, test.want)
		}
	}
	r := b.runMpiexec(t, append(strings.Fields("-host n1:4,n2:4 -n 3 --mem-per-rank 3hs"), said...)...)
	if r.code == 0 || r.out != "" || !strings.Contains(r.err, "the number of huge pages for --mem-per-rank allows 2 on n2") || !strings.Contains(r.err, "n1: the host has 1 free huge page of 2048 kB, but each rank needs 2") {
		t.Errorf("three ranks of two pages: exit %d, %s%s", r.code, r.out, r.err)
	}
}

// What ranks take of a host: threads, NUMA nodes and memory bound it, and a reserve is left alone.
func TestRoomOnAHost(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	cluster := clusterOf(t, "[[node]]\nname = \"n[1-2]\"\nid = 1\n")
	cpus := b.countCores(t, cluster)
	of := func(args ...string) []string { return append([]string{"--cluster", cluster}, args...) }
	for _, args := range [][]string{{"--hw-threads", "0"}, {"--hw-threads", "1"}, {"--per-numa", "1", "-n", "2"}, {"--strict-mem", "-n", "2"}, {"--numa-nodes", "1", "--shape", "1", "-n", "2"}} {
		if got := b.boundCPUs(t, of(args...)...); got == "" {
			t.Errorf("%q: no ranks", args)
		}
	}
	if cpus > 1 {
		got := b.boundCPUs(t, of("--reserve-cpus", "1")...)
		if want := repeatHost("n1", cpus-1) + " " + repeatHost("n2", cpus-1); hostsOfBindings(got) != want {
			t.Errorf("a CPU in reserve: %s", got)
		}
	}
	for _, test := range []struct{ args, want string }{
		{"--mem-per-rank 900000G -n 1", " available, but each rank needs "},
		{"--numa-list 60000 -n 1", "no NUMA node that --numa-list allows has 1 free CPU"},
		{"--per-numa 1 --map-by numa -n 1", "cannot be used with this option"},
		{"--shape 3 -ppn 2 -n 3", "numbers up to 2, the value of --ppn"},
	} {
		r := b.runMpiexec(t, of(append(strings.Fields(test.args), "hostname")...)...)
		if r.code == 0 || r.out != "" || !strings.Contains(r.err, test.want) {
			t.Errorf("%s: exit %d, %s%s; want %q", test.args, r.code, r.out, r.err, test.want)
		}
	}
}
