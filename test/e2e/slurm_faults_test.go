//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// waitingProgram is a rank that says that it is there, and then only waits.
var waitingProgram = []string{"sh", "-c", "echo ready; exec sleep 1000"}

// Whatever is killed between mpiexec and a rank, one cause is told, if anybody is left to tell it,
// and nothing stays behind (9.3; what TestSlurm looks for after each of its parts).
func slurmFaults(t *testing.T, s *slurmCluster) {
	s.runFaults(t, []slurmFault{
		{"srun", srunTo("n2"), testbed.Head, "lost contact with n2 (srun: killed by signal 9)"},
		{"helper", isHelperArgs, "n2", "lost contact with n2"},
		{"reaper", isReaperArgs, "n2", " n2 "}, // its helper is told to end when it dies,
	})
}

// A slurmFault is something that is killed.
type slurmFault struct {
	name    string
	matches func(args []string) bool
	on      string // a host, or the head for srun
	want    string // in what is told
}

// runFaults kills each of them under a job on n1 and n2 of its own; options are mpiexec's.
func (s *slurmCluster) runFaults(t *testing.T, faults []slurmFault, options ...string) {
	t.Helper()
	for _, test := range faults {
		t.Run(test.name, func(t *testing.T) {
			r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, slices.Concat([]string{binary}, options, waitingProgram)...)
			r.awaitOut(t, "ready", 2)
			if pids := s.killOn(t, test.on, test.matches); len(pids) == 0 {
				t.Fatal("nothing to kill")
			}
			res := r.wait(t)
			if res.code != 125 || strings.Count(res.err, "mpiexec: ") != 1 || !strings.Contains(res.err, test.want) {
				t.Errorf("exit %d: %s\nwant 125, %s", res.code, res.err, test.want)
			}
			s.awaitClean(t, slurmTimeout)
		})
	}
}

// A killed mpiexec tells nobody; its starters end since their input does, and with them all that they
// have started (RM-63).
func slurmKilled(t *testing.T, s *slurmCluster) {
	r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, append([]string{binary}, waitingProgram...)...)
	r.awaitOut(t, "ready", 2)
	for _, pid := range s.launchers() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	r.wait(t) // what salloc makes of it is Slurm's
	s.awaitClean(t, slurmTimeout)
	if !poll(slurmTimeout, func() bool { out, _, _ := s.runOnHead(t, "squeue", "-h", "-s"); return strings.TrimSpace(out) == "" }) {
		t.Error("its steps are still there")
	}
}

// Without the slurmd of a host its job goes on, to a good end: what holds the ranks is slurmstepd.
func slurmDaemonKilled(t *testing.T, s *slurmCluster) {
	j := s.submitScript(t, `exec $MPIEXEC sh -c 'echo ready; while [ ! -e leave ]; do sleep 0.2; done; echo done'`, "-N2", "-n2", "-w", "n1,n2")
	j.await(t, "ready", 2)
	daemon, err := os.ReadFile(filepath.Join(s.State, "slurm", "slurmd.n2.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.On(t.Context(), "n2", "kill", "-9", strings.TrimSpace(string(daemon))).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "leave"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j.await(t, "done", 2)
	if err := s.StartSlurmd(t.Context(), "n2"); err != nil {
		t.Fatal(err)
	}
	if state, out := j.wait(t); state != "COMPLETED" || strings.Contains(out, "mpiexec: ") {
		t.Errorf("%s: %s", state, out)
	}
}

// While slurmctld answers nobody, a job that runs goes on, and one that starts fails when its time
// to start is over, or its starter is killed before any helper has spoken.
func slurmNoController(t *testing.T, s *slurmCluster) {
	r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, binary, "sh", "-c", "echo ready; while [ ! -e /tmp/leave ]; do sleep 0.2; done; rm /tmp/leave; echo done")
	r.awaitOut(t, "ready", 2)
	controller := s.stopController(t)
	s.launchDuringStop(t, "20", "not all ranks started within 20s", nil)
	s.launchDuringStop(t, "240", "mpiexec: n[1-2]: srun: the launcher was killed by signal 9", srunTo("n1", "n2"))
	for _, h := range []string{"n1", "n2"} {
		if err := s.On(t.Context(), h, "touch", "/tmp/leave").Run(); err != nil {
			t.Fatal(err)
		}
	}
	r.awaitOut(t, "done", 2)
	syscall.Kill(controller, syscall.SIGCONT)
	if res := r.wait(t); res.code != 0 || res.err != "" {
		t.Errorf("the job that ran: exit %d: %s", res.code, res.err)
	}
}

// launchDuringStop starts mpiexec in the allocation that one on the head has already, and kills what
// kill likes of it, nil: nothing. It fails with one cause.
func (s *slurmCluster) launchDuringStop(t *testing.T, startTimeout, want string, kill func([]string) bool) {
	t.Helper()
	before := s.launchers()
	env := s.allocationOf(t, before[0])
	r := s.startMpiexec(t, mpiexecCall{env: env, args: []string{"--start-timeout", startTimeout, "-n", "2", "-ppn", "1", "true"}})
	if kill != nil {
		mine := func(pid int) bool { return !slices.Contains(before, pid) }
		killed := 0
		if !poll(slurmTimeout, func() bool { killed += len(s.killOf(mine, kill)); return killed >= 2 }) {
			t.Fatalf("%d were there to be killed, want 2", killed)
		}
	}
	if res := r.wait(t); res.code != 125 || strings.Count(res.err, "mpiexec: ") != 1 || !strings.Contains(res.err, want) {
		t.Errorf("exit %d: %s\nwant 125, %s", res.code, res.err, want)
	}
}

// allocationOf are the variables of Slurm's that a process has.
func (s *slurmCluster) allocationOf(t *testing.T, pid int) (env []string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for assignment := range strings.SplitSeq(string(text), "\x00") {
		if strings.HasPrefix(assignment, "SLURM_") {
			env = append(env, assignment)
		}
	}
	return env
}

// stopController stops slurmctld until the end of the test, at the latest.
func (s *slurmCluster) stopController(t *testing.T) (pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.State, "slurm", "slurmctld.pid"))
	if pid, _ = strconv.Atoi(strings.TrimSpace(string(text))); err != nil || pid == 0 {
		t.Fatalf("slurmctld: %q, %v", text, err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) })
	return pid
}

// Forty launches one after the other in one job all go well, and all of their steps end.
func slurmMany(t *testing.T, s *slurmCluster) {
	const script = `for i in $(seq 40); do $MPIEXEC sh -c 'echo launch' || exit; done`
	if state, out := s.submitScript(t, script, "-N2", "-n2", "-w", "n1,n2").wait(t); state != "COMPLETED" || countEqualLines(out) != "launch:80" {
		t.Errorf("%s: %s", state, out)
	}
}

// What srun warns of before the helper speaks is nobody's trouble.
func slurmWarns(t *testing.T, s *slurmCluster) {
	const script = `
mkdir -p warning
cat >warning/srun <<'end'
#!/bin/sh
case $* in *--help*) ;; *) echo 'srun: warning: can not honor anything today' >&2; echo 'srun: on its output, too';; esac
exec /usr/bin/srun "$@"
end
chmod +x warning/srun
PATH=$PWD/warning:$PATH exec $MPIEXEC hostname`
	state, out := s.submitScript(t, script, "-N2", "-n2", "-w", "n1,n2").wait(t)
	if state != "COMPLETED" || countEqualLines(out) != "n1:1 n2:1" {
		t.Errorf("%s: %s", state, out)
	}
}

// srunTo likes each srun that starts the step of one of these hosts.
func srunTo(hosts ...string) func([]string) bool {
	return func(args []string) bool {
		return strings.HasSuffix(args[0], "srun") && slices.ContainsFunc(hosts, func(h string) bool { return slices.Contains(args, h) })
	}
}

// killOn kills those processes of a host whose arguments hit likes; of the head, what mpiexec has
// started there.
func (s *slurmCluster) killOn(t *testing.T, host string, hit func(args []string) bool) (pids []int) {
	t.Helper()
	if host == testbed.Head {
		return s.killOf(func(int) bool { return true }, hit)
	}
	for _, p := range s.processes(t, host) {
		if hit(p.Args) {
			syscall.Kill(p.PID, syscall.SIGKILL)
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// killOf kills children of those mpiexec on the head that are wanted.
func (s *slurmCluster) killOf(wanted func(launcher int) bool, hit func(args []string) bool) (pids []int) {
	for _, launcher := range slices.DeleteFunc(s.launchers(), func(pid int) bool { return !wanted(pid) }) {
		for _, pid := range children(launcher) {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if hit(strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")) {
				syscall.Kill(pid, syscall.SIGKILL)
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// children are those of a process, whichever thread has started them.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for word := range strings.FieldsSeq(string(text)) {
			child, _ := strconv.Atoi(word)
			pids = append(pids, child)
		}
	}
	return pids
}
