//go:build linux

package e2e

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/test/ptytest"
	"remshell/tools/testbed"
)

// Ranks of Open MPI that share CPUs are in one session, so that sched_yield lets the others run
// (sched_autogroup). All other ranks have a session each. No rank has the terminal of mpiexec.
func TestOverbookedOpenMPIHasOneSession(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 1})
	cpus := runtime.NumCPU()
	for _, test := range []struct {
		name, program string
		options       string
		ranks         int
		one           bool // all in one session
		terminal      bool
	}{
		{"Open MPI, overbooked", "sessions.openmpi", "-host n1 --oversubscribe", 2 * cpus, true, false},
		{"Open MPI, overbooked here", "sessions.openmpi", "-host localhost", 2 * cpus, true, false},
		{"Open MPI, overbooked at a terminal", "sessions.openmpi", "-host localhost", 2 * cpus, true, true},
		{"Open MPI, a CPU each", "sessions.openmpi", "-host n1", cpus, false, false},
		{"Open MPI, a CPU each at a terminal", "sessions.openmpi", "-host localhost", cpus, false, true},
		{"MPICH, overbooked", "sessions", "-host n1 --oversubscribe", 2 * cpus, false, false},
		{"MPICH, overbooked at a terminal", "sessions.mpich4", "-host localhost", 2 * cpus, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			line := append(strings.Fields(test.options), "-q", "-n", fmt.Sprint(test.ranks), mpi(t, test.program))
			j := job{args: line}
			if test.terminal { // of a session of mpiexec's own
				_, j.stdin = ptytest.Open(t)
				j.attr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			}
			r := b.start(t, j).wait(t)
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
