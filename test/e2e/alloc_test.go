//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/idset"
	"remshell/tools/testbed"
)

// What a real Slurm grants, as mpiexec reads it: rows of TestSlurm.

// withoutOvergrantedNotes leaves out what is told of hosts with more slots than CPUs: this Slurm counts four
// CPUs on any machine.
func withoutOvergrantedNotes(out string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(out, "\n"), func(line string) bool {
		return strings.Contains(line, " but ranks can use only ")
	}), "")
}

// A heterogeneous job has the hosts of all its groups, by salloc as by sbatch, or those of the groups
// that an app context names.
func slurmGroups(t *testing.T, s *slurmCluster) {
	groups := []string{"-n1", "-w", "n1", ":", "-N2", "-n4", "-w", "n2,n3"}
	r := s.salloc(t, groups, binary, "hostname").wait(t)
	lines := strings.Fields(r.out)
	slices.Sort(lines)
	if r.code != 0 || len(lines) != 5 || len(slices.Compact(lines)) != 3 {
		t.Errorf("by salloc: exit %d: %s%s", r.code, r.out, r.err)
	}
	r = s.salloc(t, groups, binary, "--het-group", "1", "-n", "2", "-ppn", "1", "hostname").wait(t)
	if r.code != 0 || countEqualLines(r.out) != "n2:1 n3:1" {
		t.Errorf("one group: exit %d: %s%s", r.code, r.out, r.err)
	}
	state, out := s.submitScript(t, `exec $MPIEXEC hostname`, groups...).wait(t)
	if out = withoutOvergrantedNotes(out); state != "COMPLETED" || len(strings.Fields(out)) != 5 {
		t.Errorf("by sbatch: %s: %s", state, out)
	}
}

// Launches in steps of one job have the tasks of their steps, and none refuses another; one that asks
// for the job has all of it (examples 10 and 11).
func slurmSteps(t *testing.T, s *slurmCluster) {
	const script = `
rm -f up.*
for i in 1 2 3; do
	srun -N1 -n1 -c1 --exact -w n1 $MPIEXEC sh -c 'touch up.$0; while [ $(ls up.* | wc -l) -lt 3 ]; do sleep 0.2; done; echo step $(hostname) $MPIEXEC_SIZE' $i &
done
wait
srun -N1 -n1 --overlap -w n1 $MPIEXEC --batch-option scope=job sh -c 'echo job $(hostname) $MPIEXEC_SIZE'
$MPIEXEC sh -c 'echo batch $(hostname) $MPIEXEC_SIZE'
`
	state, out := s.submitScript(t, script, "-N2", "--ntasks-per-node=3", "-w", "n1,n2").wait(t)
	out = withoutOvergrantedNotes(out)
	want := "batch n1 6:3 batch n2 6:3 job n1 6:3 job n2 6:3 step n1 1:3"
	if state != "COMPLETED" || countEqualLines(out) != want {
		t.Errorf("%s: %s\n%s\nwant %s", state, countEqualLines(out), out, want)
	}
}

// Two jobs that Slurm has put on one host both run: neither's claims refuse the other (RM-20).
func slurmNeighbours(t *testing.T, s *slurmCluster) {
	const script = `exec $MPIEXEC sh -c 'echo here $(hostname); while [ ! -e both ]; do sleep 0.2; done'`
	one := s.submitScript(t, "rm -f both; "+script, "-N1", "-n2", "-w", "n4")
	one.await(t, "here n4", 2)
	two := s.submitScript(t, script, "-N1", "-n2", "-w", "n4")
	two.await(t, "here n4", 2)
	if out, err := s.On(t.Context(), "n4", "touch", s.dir+"/both").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, j := range []*slurmJob{one, two} {
		if state, out := j.wait(t); state != "COMPLETED" {
			t.Errorf("%s: %s", state, out)
		}
	}
}

// Ranks that ssh starts, or mpiexec here, keep to the CPUs that a batch system's list gives of their host, bound or not,
// and a host of which it gives none is refused (RM-6).
func TestGrantedCPUs(t *testing.T) {
	requireNamespaces(t)
	cpus := ownCPUs(t)
	if len(cpus) < 2 {
		t.Skip("this machine has one CPU: nothing could be kept off")
	}
	last := fmt.Sprint(cpus[len(cpus)-1])
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	env := func(n2 string) []string {
		list := filepath.Join(t.TempDir(), "affinity")
		if err := os.WriteFile(list, []byte("n1 "+last+"\nn2 "+n2+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return []string{"LSB_JOBID=7", "LSB_AFFINITY_HOSTFILE=" + list}
	}
	told := fmt.Sprintf("n[1-2]: the batch system grants the job 1 of %d CPUs (LSB_AFFINITY_HOSTFILE)", len(cpus))
	for _, args := range [][]string{{}, {"-bind-to", "none"}, {"--no-pin"}, {"--overbook", "-n", "4"}} {
		r := b.startMpiexec(t, mpiexecCall{env: env(last), args: append(append([]string{"-v"}, args...), "sed", "-n", `s/^Cpus_allowed_list:[[:space:]]*/=/p`, "/proc/self/status")}).wait(t)
		ranks := 2
		if len(args) > 2 {
			ranks = 4
		}
		if got := strings.Fields(r.out); r.code != 0 || !slices.Equal(got, slices.Repeat([]string{"=" + last}, ranks)) || !strings.Contains(r.err, told) {
			t.Errorf("%q: exit %d: %s%s; want CPU %s for each of %d ranks, and %q", args, r.code, r.out, r.err, last, ranks, told)
		}
	}
	if r := b.startMpiexec(t, mpiexecCall{env: env(last), args: []string{"--display-topo", "true"}}).wait(t); r.code != 0 || !strings.Contains(r.err, "not allowed: CPU") {
		t.Errorf("--display-topo: exit %d: %s%s", r.code, r.out, r.err)
	}
	here := filepath.Join(t.TempDir(), "affinity")
	if err := os.WriteFile(here, []byte("localhost "+last+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := b.startMpiexec(t, mpiexecCall{env: []string{"LSB_JOBID=7", "LSB_AFFINITY_HOSTFILE=" + here}, args: []string{"--no-pin", "sed", "-n", `s/^Cpus_allowed_list:[[:space:]]*/=/p`, "/proc/self/status"}}).wait(t)
	if r.code != 0 || strings.TrimSpace(r.out) != "="+last {
		t.Errorf("on this machine: exit %d: %s%s; want CPU %s", r.code, r.out, r.err, last)
	}
	const none = "n2: config: LSB_AFFINITY_HOSTFILE grants the CPUs 65000, but the kernel does not let mpiexec use any of them on this host"
	if r := b.startMpiexec(t, mpiexecCall{env: env("65000"), args: []string{"hostname"}}).wait(t); r.code == 0 || r.out != "" || !strings.Contains(r.err, none) {
		t.Errorf("exit %d: %s%s; want %q", r.code, r.out, r.err, none)
	}
}

// ownCPUs returns the CPUs that the test, and so each host of its cluster, may use.
func ownCPUs(t *testing.T) []int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
			cpus, err := idset.Parse(strings.TrimSpace(list), 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			return cpus
		}
	}
	t.Fatal("/proc/self/status tells no CPUs")
	return nil
}
