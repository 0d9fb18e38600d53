//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/proc"
	"remshell/test/ptytest"
	"remshell/tools/testbed"
)

// Ranks of Open MPI that share CPUs are in one session, so that sched_yield lets the others run
// (sched_autogroup), at a terminal as elsewhere. All other ranks have a session each. No rank has the terminal of mpiexec.
func TestOverbookedOpenMPIHasOneSession(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	cpus := runtime.NumCPU()
	words, many := strings.Fields, fmt.Sprint(2*cpus)
	for _, test := range []struct {
		name     string
		line     []string
		ranks    int
		one      bool // all in one session
		terminal bool
		held     bool // a CPU is another job's
	}{
		{"Open MPI, overbooked", words("-host n1 --oversubscribe -n " + many + " sessions.openmpi"), 2 * cpus, true, false, false},
		{"Open MPI, overbooked here", words("-host localhost -n " + many + " sessions.openmpi"), 2 * cpus, true, false, false},
		{"Open MPI, overbooked at a terminal", words("-host localhost -n " + many + " sessions.openmpi"), 2 * cpus, true, true, false},
		{"Open MPI, -ppn", words("-host localhost -ppn " + many + " sessions.openmpi"), 2 * cpus, true, false, false},
		{"Open MPI, -ppn at a terminal", words("-host localhost -ppn " + many + " sessions.openmpi"), 2 * cpus, true, true, false},
		{"Open MPI spawns", words("-host localhost -n 1 sessions.openmpi " + many), 2 * cpus, true, false, false},
		{"Open MPI spawns at a terminal", words("-host localhost -n 1 sessions.openmpi " + many), 2 * cpus, true, true, false},
		{"Open MPI beside another job", words("-host localhost -n " + fmt.Sprint(cpus) + " sessions.openmpi"), cpus, true, false, true},
		{"Open MPI beside another job at a terminal", words("-host localhost -n " + fmt.Sprint(cpus) + " sessions.openmpi"), cpus, true, true, true},
		{"Open MPI on one CPU", words("-host localhost --oversubscribe --bind-to user:0 -n 2 sessions.openmpi"), 2, true, false, false},
		{"Open MPI on one CPU at a terminal", words("-host localhost --oversubscribe --bind-to user:0 -n 2 sessions.openmpi"), 2, true, true, false},
		{"Open MPI, a CPU each", words("-host n1 -n " + fmt.Sprint(cpus) + " sessions.openmpi"), cpus, false, false, false},
		{"Open MPI, a CPU each at a terminal", words("-host localhost -n " + fmt.Sprint(cpus) + " sessions.openmpi"), cpus, false, true, false},
		{"MPICH, overbooked", words("-host n1 --oversubscribe -n " + many + " sessions"), 2 * cpus, false, false, false},
		{"MPICH, overbooked at a terminal", words("-host localhost -n " + many + " sessions.mpich4"), 2 * cpus, false, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.held {
				other := b.startHolding(t, "-host", "localhost", "-n", "1")
				other.awaitCPUs(t)
				defer other.end(t)
			}
			line := append([]string{"-q"}, test.line...)
			program := slices.IndexFunc(line, func(word string) bool { return strings.HasPrefix(word, "sessions") })
			line[program] = mpiProgram(t, line[program])
			j := mpiexecCall{args: line}
			if test.terminal { // of a session of mpiexec's own
				_, j.stdin = ptytest.Open(t)
				j.attr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			}
			r := b.startMpiexec(t, j).wait(t)
			var said []string
			for _, word := range strings.Split(r.out, "\n") {
				if word = strings.TrimSpace(word); strings.HasPrefix(word, "session ") {
					said = append(said, word)
				}
			}
			kinds := slices.Compact(slices.Sorted(slices.Values(said)))
			one := len(kinds) == 1 && kinds[0] != "session own"
			if r.code != 0 || len(said) != test.ranks || len(kinds) != 1 || one != test.one || strings.Contains(kinds[0], "terminal") {
				t.Errorf("exit %d, %q, stderr %q, want one session: %v", r.code, r.out, r.err, test.one)
			}
		})
	}
}

// Spawned ranks of Open MPI that share CPUs are in the session of the ranks that have spawned them. If these began with a CPU each, they keep
// their own sessions, and the spawned ones have one together.
func TestSpawnedRanksJoinTheSession(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t) // what is looked at is found by its host
	cpus := runtime.NumCPU()
	for _, test := range []struct {
		name           string
		first, spawned int  // ranks, never as many of both
		together       bool // also the first ranks
	}{
		{"the first ranks share CPUs", 2 * cpus, 2*cpus + 1, true},
		{"the first rank has a CPU", 1, 2 * cpus, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "--oversubscribe", "-genv", "OMPI_MCA_mpi_yield_when_idle", "1", "-q",
				"-n", fmt.Sprint(test.first), mpiProgram(t, "spawn.openmpi"), "hold", fmt.Sprint(test.spawned)}})
			r.awaitOut(t, "ready", test.first+test.spawned)
			groups := make(map[string][]proc.Info) // by namespace
			for _, p := range b.processes(t, "n1") {
				if look, there := proc.ReadInfo(p.PID); there && strings.Contains(p.Args[0], "spawn.openmpi") {
					name := proc.EnvironVariable(p.PID, "PMIX_NAMESPACE")
					groups[name] = append(groups[name], look)
				}
			}
			sessions := make(map[int]map[int]bool) // by how many ranks their group has
			for _, looks := range groups {
				sessions[len(looks)] = make(map[int]bool)
				for _, look := range looks {
					sessions[len(looks)][look.Session] = true
				}
			}
			first, spawned := sessions[test.first], sessions[test.spawned]
			if len(groups) != 2 || len(first) != 1 || len(spawned) != 1 || maps.Equal(first, spawned) != test.together {
				t.Errorf("first ranks in sessions %v, spawned ones in %v; of %+v", first, spawned, groups)
			}
			for _, looks := range groups {
				for _, look := range looks {
					if leads := look.Session == look.PID; leads != (len(looks) == test.first && !test.together) {
						t.Errorf("a session of its own: %v: %+v", leads, look)
					}
				}
			}
			r.cmd.Process.Signal(syscall.SIGTERM)
			if got := r.wait(t); got.code != 143 {
				t.Errorf("exit %d, %q", got.code, got.err)
			}
		})
	}
}
