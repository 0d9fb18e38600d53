//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remshell/idset"
	"remshell/pin"
	"remshell/tools/testbed"
)

// bindingProgram prints a line of what a rank is in truth: its number, the node's name for the
// user and for itself, and the kernel's word of the CPUs of the rank, of a child and of a
// child in a session of its own, and of its memory.
const bindingProgram = `cpus() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$1/status; }
memory=$(cut -d " " -f 2 /proc/$$/numa_maps 2>/dev/null | sort -u)
echo "$PMI_RANK $MPIEXEC_HOST $(hostname) $(cpus $$) $(cpus self) $(setsid sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) $memory"`

// A plannedRank rank is one of the answer to --plan.
type plannedRank struct {
	Rank              int
	Node              string
	Slots, CPUs, Mems []int
}

// line is what bound has to print for it on a host of that name where nobody is bound to
// less than all.
func (p plannedRank) line(hostname, all string) string {
	cpus, memory := all, "default"
	if p.CPUs != nil {
		cpus = idset.Text(p.CPUs)
	}
	if p.Mems != nil {
		memory = "bind:" + idset.Text(p.Mems)
	}
	return fmt.Sprintln(p.Rank, p.Node, hostname, cpus, cpus, cpus, memory)
}

// planRanks asks where the ranks of a request would run.
func (b *testCluster) planRanks(t *testing.T, j mpiexecCall) []plannedRank {
	t.Helper()
	r := b.startMpiexec(t, mpiexecCall{args: append([]string{"--plan"}, j.args...), env: j.env}).wait(t)
	var answer struct{ Ranks []plannedRank }
	if err := json.Unmarshal([]byte(r.out), &answer); err != nil || r.code != 0 || len(answer.Ranks) == 0 {
		t.Fatalf("--plan %q: exit %d, %v: %s%s", j.args, r.code, err, r.out, r.err)
	}
	return answer.Ranks
}

// A rankRequest is a request for ranks, and how many there will be.
type rankRequest struct {
	env, args string
	ranks     int
}

// argsFor is the command line of a wish, with a program in every section.
func (w rankRequest) argsFor(program ...string) (args []string) {
	for word := range strings.FieldsSeq(w.args) {
		if word == ":" {
			args = append(args, program...)
		}
		args = append(args, word)
	}
	return append(args, program...)
}

// asPlanned runs a wish and compares what the ranks see of themselves, in their order,
// with what --plan has told before. masks are the CPUs of each host where nobody is bound.
func (b *testCluster) asPlanned(t *testing.T, w rankRequest, env []string, masks map[string]string) []plannedRank {
	t.Helper()
	env = append(slices.Clone(env), strings.Fields(w.env)...)
	ranks := b.planRanks(t, mpiexecCall{args: strings.Fields(w.args), env: env})
	var want string
	for _, p := range ranks {
		name, mask := b.nameOf(p.Node), masks[p.Node]
		if p.Node == "localhost" {
			name, mask = b.headName(t), masks["localhost"]
		}
		want += p.line(name, mask)
	}
	r := b.startMpiexec(t, mpiexecCall{args: w.argsFor("sh", "-c", bindingProgram), env: env}).wait(t)
	lines := sortedLines(r.out)
	slices.SortFunc(lines, func(a, b string) int { return rankOf(a) - rankOf(b) })
	if got := strings.Join(lines, "\n") + "\n"; r.code != 0 || got != want || len(ranks) != w.ranks {
		t.Errorf("%s %s: exit %d, stderr %q, %d ranks, want %d\n%splanned:\n%s", w.env, w.args, r.code, r.err, len(ranks), w.ranks, got, want)
	}
	return ranks
}

// rankOf returns the rank number at the beginning of a line.
func rankOf(line string) (rank int) {
	fmt.Sscan(line, &rank)
	return rank
}

// headName returns the head's host name.
func (b *testCluster) headName(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "1", "hostname"}}).wait(t).out)
}

// cpuMask is what a rank of that host may use that is not bound.
func (b *testCluster) cpuMask(t *testing.T, host string, env ...string) string {
	t.Helper()
	r := b.startMpiexec(t, mpiexecCall{env: env, args: []string{"-host", host, "--no-pin", "-n", "1", "sed", "-n", `s/^Cpus_allowed_list:[[:space:]]*//p`, "/proc/self/status"}}).wait(t)
	if r.code != 0 {
		t.Fatalf("%s: exit %d: %s", host, r.code, r.err)
	}
	return strings.TrimSpace(r.out)
}

// clusterFile writes a cluster file and returns the assignment that names it.
func clusterFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.toml")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "MPIEXEC_CLUSTER=" + path
}

// Issue 3, done when 4, and issue 4, done when 4, on this machine: what is planned is what
// the kernel does, for ranks, their children, and what leaves their session.
func TestPlanIsWhatRuns(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	mask := b.cpuMask(t, "localhost")
	masks := map[string]string{"localhost": mask}
	cpus, err := pin.ParseCPUs(mask)
	if err != nil {
		t.Fatal(err)
	}
	cores := len(b.planRanks(t, mpiexecCall{args: []string{"-host", "localhost"}}))
	open := clusterFile(t, "[[node]]", `name = "localhost"`, `allowUserMap = "yes"`)
	threads := clusterFile(t, "[[node]]", `name = "localhost"`, `countThreads = "yes"`, fmt.Sprintf("CPUmap = [%d]", cpus[len(cpus)-1]))
	loose := clusterFile(t, "[[node]]", `name = "localhost"`, `pinProcs = "no"`, `bindMem = "no"`)
	last := fmt.Sprint(cores - 1)
	for _, w := range []rankRequest{
		{"", "-host localhost -n 1", 1},
		{"", "-host localhost", cores},
		{"", "-host localhost --overbook -n 4", 4},
		{"", fmt.Sprint("-host localhost --overbook -n ", 2*cores+1), 2*cores + 1},
		{"", "-host localhost:4 -n 4", 4},
		{"", "-host localhost:4 --tpp 2 -n 2", 2},
		{fmt.Sprint("PSI_TPP=", cores), "-host localhost -n 1", 1},
		{"", "-host localhost --overbook --tpp 2 -n 1 : -n 2", 3},
		{"", "-host localhost --no-pin -n 1", 1},
		{"__PSI_NO_PINPROC=", "-host localhost:2 --no-mem-bind -n 2", 2},
		{"__PSI_NO_MEMBIND=", "-host localhost -n 1", 1},
		{open, "-host localhost --cpu-map " + last + "-0 -n 1", 1},
		{open + " __PSI_CPUMAP=" + last, fmt.Sprint("-host localhost -n ", cores), cores},
		{"__PSI_CPUMAP=" + last, "-host localhost -n 1", 1}, // not allowed
		{threads, "-host localhost -n 1", 1},
		{threads, "-host localhost", len(cpus)},
		{loose, "-host localhost:2 -n 2", 2},
	} {
		b.asPlanned(t, w, nil, masks)
	}
	if first := b.asPlanned(t, rankRequest{open, "-host localhost --cpu-map " + last + " -n 1", 1}, nil, masks)[0]; !slices.Contains(first.CPUs, cpus[len(cpus)-1]) {
		t.Errorf("the map begins with core %s, and the rank is on CPUs %v of %s", last, first.CPUs, mask)
	}
}

// A rank with many threads, which is mpiexec itself: all of them have its CPUs.
func TestThreadsAreBound(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	p := b.planRanks(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "1"}})[0]
	r := b.runMpiexec(t, "-host", "localhost", "-n", "1", binary, "-host", "localhost", "--no-pin", "-n", "1",
		"sh", "-c", `ls /proc/$PPID/task | wc -l; sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$PPID/task/*/status | sort -u`)
	threads, masks, _ := strings.Cut(r.out, "\n")
	if n, err := strconv.Atoi(strings.TrimSpace(threads)); r.code != 0 || err != nil || n < 2 || masks != idset.Text(p.CPUs)+"\n" {
		t.Errorf("exit %d, stderr %q: %s threads have CPUs %q, want %s", r.code, r.err, threads, masks, idset.Text(p.CPUs))
	}
}

// The same on hosts, of which one may use one CPU only and one does not bind.
func TestPlanIsWhatRunsOnHosts(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	cpus, err := pin.ParseCPUs(b.cpuMask(t, "n1"))
	if err != nil || len(cpus) < 2 {
		t.Skipf("needs a machine with two CPUs: %v, %v", cpus, err)
	}
	last := fmt.Sprint(cpus[len(cpus)-1])
	b.runOn(t, "n2", "sh", "-c", `for p in /proc/[0-9]*; do taskset -cp `+last+` ${p#/proc/} >/dev/null || exit; done`)
	env := []string{clusterFile(t, "[[node]]", `name = "n[1-2]"`, "id = 1", "[[node]]", `name = "n3"`, "id = 3", `pinProcs = "no"`, `bindMem = "no"`)}
	masks := map[string]string{"n1": b.cpuMask(t, "n1"), "n2": b.cpuMask(t, "n2"), "n3": b.cpuMask(t, "n3")}
	if masks["n2"] != last {
		t.Fatalf("n2 has CPUs %s, want %s", masks["n2"], last)
	}
	cores := len(b.planRanks(t, mpiexecCall{args: []string{"-host", "n1"}}))
	for _, w := range []rankRequest{
		{"", "-host n2 -n 1", 1},
		{"", "-hosts n1,n2,n3", 2*cores + 1},
		{"", "-hosts n2:2,n1:2 -n 4", 4},
		{"PSI_NODES=1-3 PSI_NODES_SORT=none", fmt.Sprint("-n ", 2*cores+1), 2*cores + 1},
		{"PSI_NODES=3,2,1 PSI_NODES_SORT=none PSI_LOOP_NODES_FIRST=", "-n 3", 3},
		{"PSI_HOSTS=n1,n2 PSI_OVERBOOK=", fmt.Sprint("-n ", 2*cores+3), 2*cores + 3},
		{fmt.Sprint("PSI_NODES=1-3 OMP_NUM_THREADS=", cores), "-n 2", 2},
		{"PSI_NODES=1 __PSI_NO_PINPROC= __PSI_NO_BINDMEM=", "-n 1", 1},
	} {
		b.asPlanned(t, w, env, masks)
	}
	r := b.runMpiexec(t, "-host", "n2", "-n", "2", "true")
	if want := fmt.Sprintf("there are free slots for only 1 rank on 1 node (n2); on n2 the CPU mask or cpuset leaves 1 of %d cores", cores); r.code != 125 || !strings.Contains(r.err, want) {
		t.Errorf("two ranks on one CPU: exit %d, %s; want %s", r.code, r.err, want)
	}
	r = b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n3,n2,n1", "--report-bindings", "-n", fmt.Sprint(2*cores + 1), "true"}, env: env}).wait(t)
	lines := strings.Split(r.err, "\n")
	if len(lines) != 2*cores+2 || lines[0] != "rank 0 n3 not bound" || !strings.HasPrefix(lines[cores], fmt.Sprintf("rank %d n2 ", cores)) || !strings.Contains(lines[cores], "-") {
		t.Errorf("--report-bindings: exit %d, %q", r.code, r.err)
	}
}

// PLACE-5: a mask that mpiexec inherits bounds everything, also what is told of it.
func TestAMaskBoundsEverything(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	mask := b.cpuMask(t, "localhost")
	cpus, err := pin.ParseCPUs(mask)
	if err != nil || len(cpus) < 2 {
		t.Skipf("needs two CPUs: %s, %v", mask, err)
	}
	last := fmt.Sprint(cpus[len(cpus)-1])
	for _, test := range []struct {
		args string
		code int
		out  string // CPUs of each rank
		says string
	}{
		{"-host localhost -n 1", 0, last + "\n", ""},
		{"-host localhost:2 -n 2", 0, last + "\n" + last + "\n", ""},
		{"-host localhost --no-pin -n 1", 0, last + "\n", ""},
		{"-host localhost -n 2", 0, last + "\n" + last + "\n", "2 ranks share 1 CPU (the CPU mask or cpuset leaves 1 of "},
		{"-host localhost --nooversubscribe -n 2", 125, "", "free slots for only 1 rank on 1 node (localhost); on localhost the CPU mask or cpuset leaves 1 of "},
		{"-host localhost --nooversubscribe --tpp 2 -n 1", 125, "", "the host has 1 of 1 CPU free, but each rank needs 2 by --tpp; the CPU mask or cpuset leaves 1 of "},
		{"-n 2", 0, last + "\n" + last + "\n", "2 ranks share 1 CPU (the CPU mask or cpuset leaves 1 of "},
	} {
		args := append([]string{"-c", last, binary}, strings.Fields(test.args)...)
		args = append(args, "sed", "-n", `s/^Cpus_allowed_list:[[:space:]]*//p`, "/proc/self/status")
		out, errs, code := b.runOnHead(t, "taskset", args...)
		if code != test.code || out != test.out || !strings.Contains(errs, test.says) || test.says == "" && errs != "" {
			t.Errorf("%s: exit %d, %q, says %q; want %d, %q, %q", test.args, code, out, errs, test.code, test.out, test.says)
		}
	}
}
