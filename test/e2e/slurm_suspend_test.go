//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What Slurm does to its own job, and knows of it.

// A job that Slurm suspends is stopped on all hosts, its timers too, and goes on when Slurm
// resumes it.
func slurmSuspend(t *testing.T, s *slurmCluster) {
	j := s.submitScript(t, `exec $MPIEXEC --timeout 3000 sh -c 'echo ready; while [ ! -e leave2 ]; do sleep 0.2; done; echo done'`, "-N2", "-n2", "-w", "n1,n2")
	j.await(t, "ready", 2)
	s.runSlurmCommand(t, "scontrol", "suspend", j.id)
	for _, h := range []string{"n1", "n2"} {
		if !poll(slurmTimeout, func() bool { return s.isStopped(t, h) }) {
			t.Errorf("%s: not all is stopped: %v", h, s.processes(t, h))
		}
	}
	s.runSlurmCommand(t, "scontrol", "resume", j.id)
	if err := os.WriteFile(filepath.Join(s.dir, "leave2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if state, out := j.wait(t); state != "COMPLETED" || countEqualLines(out) != "done:2 ready:2" {
		t.Errorf("%s: %s", state, out)
	}
}

// isStopped reports whether all of a job is, on a host: but for Slurm's own part of it.
func (s *slurmCluster) isStopped(t *testing.T, host string) bool {
	t.Helper()
	for _, p := range s.processes(t, host) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		if err != nil || strings.HasPrefix(p.Args[0], "slurmstepd") || strings.HasSuffix(p.Args[0], "srun") {
			continue
		}
		if after := string(stat[strings.LastIndexByte(string(stat), ')')+1:]); !strings.HasPrefix(after, " T") {
			return false
		}
	}
	return true
}

// burningProgram is a rank that takes three seconds of CPU time, and then waits for a file to be there.
const burningProgram = `cat >burn.sh <<'end'
perl -e 'while ((times)[0] + (times)[1] < 3) { $x++ }'
echo burnt
while [ ! -e $1 ]; do sleep 0.2; done
end
`

// Slurm counts what all ranks consume, those of every host, as we do ourselves; there is no
// accounting without a database, so it is asked while they run. What ssh starts it does not see.
func slurmAccounted(t *testing.T, s *slurmCluster) {
	j := s.submitScript(t, burningProgram+`exec $MPIEXEC --usage --report held.json sh burn.sh leave3`, "-N2", "-n2", "-w", "n1,n2")
	j.await(t, "burnt", 2)
	// It rounds down user and system time of each step, and looks every two seconds.
	if !poll(slurmTimeout, func() bool {
		used := s.stepCPUTimes(t, j.id)
		return used["0"] >= 2*time.Second && used["1"] >= 2*time.Second
	}) {
		t.Errorf("Slurm knows of %v", s.stepCPUTimes(t, j.id))
	}
	for _, h := range []string{"n1", "n2"} {
		if out := s.runOn(t, h, "sh", "-c", `n=0; for p in $(pgrep -f "^sh burn.sh leave3"); do scontrol listpids $0 | grep -q "^$p " && n=$((n+1)); done; echo $n`, j.id); strings.TrimSpace(out) != "1" {
			t.Errorf("%s: of its rank scontrol listpids has %s", h, out)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "leave3"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if state, out := j.wait(t); state != "COMPLETED" || !strings.Contains(out, "resources_used.cput = 00:00:0") {
		t.Errorf("%s: %s", state, out)
	}
	s.checkReport(t, "held.json", true)
	r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, append([]string{binary, "-launcher", "ssh", "--report", filepath.Join(s.dir, "loose.json")}, waitingProgram...)...)
	r.awaitOut(t, "ready", 2)
	if steps, errs, _ := s.runOnHead(t, "squeue", "-h", "-s"); strings.TrimSpace(steps) != "" || errs != "" {
		t.Errorf("by ssh Slurm knows of %s%s", steps, errs)
	}
	s.terminate(t, r)
	s.checkReport(t, "loose.json", false)
	slurmUnheld(t, s)
}

// checkReport checks that a report of two hosts says of both whether Slurm holds them.
func (s *slurmCluster) checkReport(t *testing.T, file string, held bool) {
	t.Helper()
	report, err := os.ReadFile(filepath.Join(s.dir, file))
	if n := strings.Count(string(report), fmt.Sprintf(`"rm_accounted": %t`, held)); err != nil || n != 2 {
		t.Errorf("%v: rm_accounted is %t of %d hosts, want 2: %s", err, held, n, report)
	}
}

// A srun that starts something where Slurm does not hold it is told of (RM-45).
func slurmUnheld(t *testing.T, s *slurmCluster) {
	dir, err := os.MkdirTemp(s.dir, "aside-")
	if err != nil {
		t.Fatal(err)
	}
	const text = "#!/bin/sh\ncase $* in *--help*) exec /usr/bin/srun \"$@\";; esac\nwhile [ \"$1\" != -w ]; do shift; done\nexec ssh $2 /bin/sh\n"
	if err := os.WriteFile(filepath.Join(dir, "srun"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, "env", "PATH="+dir+":"+os.Getenv("PATH"), binary, "hostname").wait(t)
	const want = "mpiexec: warning: Slurm does not control the ranks on n[1-2], because they do not descend from slurmstepd\n"
	if r.code != 0 || r.err != want || countEqualLines(r.out) != "n1:1 n2:1" {
		t.Errorf("exit %d: %s%s\nwant %s", r.code, r.out, r.err, want)
	}
}

// stepCPUTimes is how much CPU time the steps of a job have taken that run, as Slurm has counted it.
func (s *slurmCluster) stepCPUTimes(t *testing.T, id string) map[string]time.Duration {
	t.Helper()
	out, errs, code := s.runOnHead(t, "sstat", "-n", "-a", "-P", "-j", id, "-o", "JobID,AveCPU")
	if code != 0 {
		t.Fatalf("sstat: %s", errs)
	}
	used := make(map[string]time.Duration)
	for line := range strings.Lines(out) {
		step, clock, _ := strings.Cut(strings.TrimSpace(line), "|")
		var seconds int
		for part := range strings.SplitSeq(clock, ":") {
			n, err := strconv.Atoi(part)
			if err != nil {
				t.Fatalf("sstat: %q", line)
			}
			seconds = seconds*60 + n
		}
		used[strings.TrimPrefix(step, id+".")] = time.Duration(seconds) * time.Second
	}
	return used
}
