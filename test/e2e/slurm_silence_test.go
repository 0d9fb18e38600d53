//go:build linux

package e2e

import (
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// TestSlurmWaits has those faults that are noticed only when a time is over, side by side.
func TestSlurmWaits(t *testing.T) {
	t.Parallel()
	requireNamespaces(t)
	if err := testbed.NoSlurm(); err != nil {
		t.Skip(err)
	}
	s := newSlurmCluster(t, 7)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *slurmCluster)
	}{
		{"StepDaemonKilled", slurmStepDaemonKilled},
		{"Unplugged", slurmLinkCut},
		{"TimeLimit", slurmTimeLimit},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, s)
		})
	}
}

// lostInSilence waits until mpiexec has lost a host that says nothing any more, and nothing of the job
// is left on the other.
func (s *slurmCluster) lostInSilence(t *testing.T, r *runningJob, host, other string) {
	t.Helper()
	res := r.wait(t)
	if want := "lost contact with " + host + " (no message for "; res.code != 125 || strings.Count(res.err, "mpiexec: ") != 1 ||
		!strings.Contains(res.err, want) || !strings.Contains(res.err, "s, although Slurm reports that the job runs)") {
		t.Errorf("exit %d: %s\nwant 125, %s", res.code, res.err, want)
	}
	s.awaitEmptyHost(t, other)
}

// awaitEmptyHost waits until no process is left on a host.
func (s *slurmCluster) awaitEmptyHost(t *testing.T, host string) {
	t.Helper()
	if !poll(slurmTimeout, func() bool { return len(s.processes(t, host)) == 0 }) {
		t.Errorf("%s: still there: %v", host, s.processes(t, host))
	}
}

// srun notices nothing when the slurmstepd of its step is killed; the helper does, whose input ends,
// and so does mpiexec, since it hears nothing of the helper any more (RM-40).
func slurmStepDaemonKilled(t *testing.T, s *slurmCluster) {
	r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, append([]string{binary}, waitingProgram...)...)
	r.awaitOut(t, "ready", 2)
	daemon := func(args []string) bool { return strings.HasPrefix(args[0], "slurmstepd: [") }
	if pids := s.killOn(t, "n2", daemon); len(pids) == 0 {
		t.Fatal("no slurmstepd")
	}
	s.awaitEmptyHost(t, "n2") // by then mpiexec is not over
	s.lostInSilence(t, r, "n2", "n1")
}

// A host whose cable is cut is lost as well. When it is there again, nothing of the job stays on it.
func slurmLinkCut(t *testing.T, s *slurmCluster) {
	r := s.salloc(t, []string{"-N2", "-n2", "-w", "n3,n4"}, append([]string{binary}, waitingProgram...)...)
	r.awaitOut(t, "ready", 2)
	if err := s.SetLink("n4", false); err != nil {
		t.Fatal(err)
	}
	s.lostInSilence(t, r, "n4", "n3")
	if err := s.SetLink("n4", true); err != nil {
		t.Fatal(err)
	}
	s.awaitEmptyHost(t, "n4")
}

// Before the time limit ranks are warned, as wanted; at the limit the batch system is the cause, ranks
// that do not care are killed, and what they have consumed is told.
func slurmTimeLimit(t *testing.T, s *slurmCluster) {
	j := s.submitScript(t, signalLogger+`
{ echo 'trap "" TERM'; grep -v TERM logger.sh; } >deaf.sh
exec $MPIEXEC --usage --kill-grace 3 -n 2 -ppn 1 sh deaf.sh`,
		"-N2", "-n2", "-w", "n5,n6", "-t", "2", "--signal=USR1@30") // the signal comes up to half a minute early
	j.await(t, "-USR1=", 2)
	j.await(t, "resources_used.walltime = 00:0", 1)
	out := j.text()
	for mark, want := range map[string]int{"=0-USR1=": 1, "=1-USR1=": 1, "mpiexec: Slurm ends job " + j.id + " (at its time limit, or because a user cancelled it)": 1,
		"exit code 143": 1, "lost contact": 0} {
		if n := strings.Count(out, mark); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", mark, n, want, out)
		}
	}
	s.awaitEmptyHost(t, "n5")
	s.awaitEmptyHost(t, "n6")
}
