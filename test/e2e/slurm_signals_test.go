//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// signalLogger is a rank that tells of each signal it gets, and ends by SIGTERM.
const signalLogger = `cat >logger.sh <<'end'
for s in INT HUP USR1 USR2 ALRM CONT XCPU; do trap "echo =\$MPIEXEC_RANK-$s=" $s; done
trap 'echo =$MPIEXEC_RANK-TERM=; exit 3' TERM
echo =$MPIEXEC_RANK-ready=
while :; do sleep 1; done
end
`

// startSignalLogger starts a job of a rank on each of two hosts that tells of its signals, and waits until
// both are ready.
func (s *slurmCluster) startSignalLogger(t *testing.T, options string) *slurmJob {
	t.Helper()
	j := s.submitScript(t, signalLogger+"exec $MPIEXEC "+options+" -n 2 -ppn 1 sh logger.sh", "-N2", "-n2", "-w", "n1,n2")
	j.await(t, "-ready=", 2)
	return j
}

// runSlurmCommand calls a command of Slurm's.
func (s *slurmCluster) runSlurmCommand(t *testing.T, words ...string) {
	t.Helper()
	if out, errs, code := s.runOnHead(t, words[0], words[1:]...); code != 0 {
		t.Fatalf("%q: exit %d: %s%s", words, code, out, errs)
	}
}

// A signal reaches each rank, whomever Slurm sends it: the steps, in which the ranks are, or the
// script alone, from which it is passed on; once, but where it may cross itself on two ways.
func slurmSignals(t *testing.T, s *slurmCluster) {
	j := s.startSignalLogger(t, "")
	s.runSlurmCommand(t, "scancel", "-s", "USR1", j.id)
	for _, mark := range []string{"=0-USR1=", "=1-USR1="} {
		j.await(t, mark, 1)
	}
	s.runSlurmCommand(t, "scancel", "-b", "-s", "USR2", j.id)
	for _, mark := range []string{"=0-USR2=", "=1-USR2="} {
		j.await(t, mark, 1)
	}
	s.runSlurmCommand(t, "scancel", "-f", "-s", "ALRM", j.id)
	for _, mark := range []string{"=0-ALRM=", "=1-ALRM="} {
		j.await(t, mark, 1)
	}
	s.runSlurmCommand(t, "scancel", j.id)
	j.wait(t)
	j.await(t, "exit code 143", 1)
	out := j.text()
	for _, mark := range []string{"=0-USR1=", "=1-USR1=", "=0-USR2=", "=1-USR2=", "=0-TERM=", "=1-TERM="} {
		if n := strings.Count(out, mark); n != 1 && !(n == 2 && strings.Contains(mark, "TERM")) {
			t.Errorf("%s came %d times, want once:\n%s", mark, n, out)
		}
	}
}

// Slurm ends its job: each rank is told, what it then says and consumed is not lost, and Slurm
// is the cause, whatever of it we heard of first (RM-60, RM-61).
func slurmCancel(t *testing.T, s *slurmCluster) {
	j := s.startSignalLogger(t, "--usage --report report.json")
	s.runSlurmCommand(t, "scancel", j.id)
	j.wait(t) // for Slurm it is over when the script is told, not when it has ended
	j.await(t, "  all    2 ", 1)
	out := j.text()
	for mark, want := range map[string]int{"mpiexec: Slurm ends job " + j.id + " (at its time limit, or because a user cancelled it)": 1, "exit code 143": 1, "lost contact": 0} {
		if n := strings.Count(out, mark); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", mark, n, want, out)
		}
	}
	for _, mark := range []string{"=0-TERM=", "=1-TERM="} { // twice if our word was faster than Slurm's to the other host
		if n := strings.Count(out, mark); n != 1 && n != 2 {
			t.Errorf("%s came %d times:\n%s", mark, n, out)
		}
	}
	report, err := os.ReadFile(filepath.Join(s.dir, "report.json"))
	if err != nil || !strings.Contains(string(report), `"starter": "srun"`) {
		t.Errorf("report: %v: %s", err, report)
	}
}

// Whoever cancels the step of one host has lost that host (RM-42).
func slurmStepCancelled(t *testing.T, s *slurmCluster) {
	j := s.startSignalLogger(t, "")
	s.runSlurmCommand(t, "scancel", j.id+".0")
	state, out := j.wait(t)
	if state != "FAILED" || j.field(t, "ExitCode") != "125:0" || strings.Contains(out, "Slurm ends job") ||
		!strings.Contains(out, "lost contact with n") && !strings.Contains(out, "received a signal that ends them (SIGTERM)") {
		t.Errorf("%s: %s", state, out)
	}
}
