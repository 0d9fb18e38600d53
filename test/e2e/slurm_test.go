//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A slurmCluster is a test cluster whose hosts are nodes of a real Slurm.
type slurmCluster struct {
	*testCluster
	dir     string // folder for the output of jobs; it has the same path on all hosts
	mpiexec string // path of the program under test in dir
}

// TestSlurm runs all tests that need a real Slurm, on one cluster. It needs root and an installed Slurm.
func TestSlurm(t *testing.T) {
	t.Parallel()
	requireNamespaces(t)
	if err := testbed.NoSlurm(); err != nil {
		t.Skip(err)
	}
	s := newSlurmCluster(t, 4)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *slurmCluster)
	}{
		{"Batch", slurmBatch},
		{"FromOutside", slurmFromOutside},
		{"One", slurmOne},
		{"Streams", slurmStreams},
		{"Terminal", slurmTerminal},
		{"Groups", slurmGroups},
		{"Steps", slurmSteps},
		{"Neighbours", slurmNeighbours},
		{"Signals", slurmSignals},
		{"Cancel", slurmCancel},
		{"StepCancelled", slurmStepCancelled},
		{"Suspend", slurmSuspend},
		{"Accounted", slurmAccounted},
		{"Faults", slurmFaults},
		{"Script", slurmScript},
		{"Killed", slurmKilled},
		{"DaemonKilled", slurmDaemonKilled},
		{"NoController", slurmNoController},
		{"Many", slurmMany},
		{"Warns", slurmWarns},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s)
			s.awaitClean(t, slurmTimeout)
		})
	}
}

// slurmTimeout is how long to wait for an action of Slurm before the test fails.
const slurmTimeout = 10 * time.Minute

// newSlurmCluster brings up a test cluster with Slurm. It copies the program to a folder that all
// nodes see, as a site would.
func newSlurmCluster(t *testing.T, hosts int) *slurmCluster {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(repoRoot, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "slurm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &slurmCluster{dir: dir, mpiexec: filepath.Join(dir, "mpiexec")}
	if err := copyProgram(binary, s.mpiexec); err != nil {
		t.Fatal(err)
	}
	s.testCluster = newTestCluster(t, testbed.Options{Hosts: hosts, Slurm: true})
	return s
}

// copyProgram copies an executable file.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// A slurmJob is a job that was submitted with sbatch.
type slurmJob struct {
	cluster *slurmCluster
	id      string
	output  string // file of its output
}

// submitScript submits a shell script with these options of sbatch. In it, $MPIEXEC is the program
// under test. At the end of the test the job is cancelled if it still runs.
func (s *slurmCluster) submitScript(t *testing.T, script string, options ...string) *slurmJob {
	t.Helper()
	file, err := os.CreateTemp(s.dir, "job-*.sh")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(file, "#!/bin/sh\nMPIEXEC=%s\n%s\n", s.mpiexec, script)
	file.Close()
	j := &slurmJob{cluster: s, output: file.Name() + ".out"}
	args := slices.Concat([]string{"--parsable", "-D", s.dir, "-o", j.output, "-t", "60"}, options, []string{file.Name()})
	out, errs, code := s.runOnHead(t, "sbatch", args...)
	j.id = strings.TrimSpace(out)
	if code != 0 {
		t.Fatalf("sbatch %q: exit %d: %s", args, code, errs)
	}
	t.Cleanup(func() { // the context of the test is over by now
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Command(ctx, nil, "scancel", "-f", "-s", "KILL", j.id).Run()
		s.Command(ctx, nil, "scancel", j.id).Run()
	})
	return j
}

// state returns the job's state in Slurm: RUNNING, COMPLETED, ...
func (j *slurmJob) state(t *testing.T) string {
	t.Helper()
	return j.field(t, "JobState")
}

// field returns the value of a field of scontrol show job.
func (j *slurmJob) field(t *testing.T, name string) string {
	t.Helper()
	out, errs, code := j.cluster.runOnHead(t, "scontrol", "-o", "show", "job", j.id)
	if code != 0 {
		t.Fatalf("scontrol show job %s: %s", j.id, errs)
	}
	for word := range strings.FieldsSeq(out) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	t.Fatalf("scontrol show job %s tells no %s:\n%s", j.id, name, out)
	return ""
}

// text returns the job's output so far.
func (j *slurmJob) text() string {
	text, _ := os.ReadFile(j.output)
	return string(text)
}

// await waits until the output contains text at least n times.
func (j *slurmJob) await(t *testing.T, text string, n int) {
	t.Helper()
	if !poll(slurmTimeout, func() bool { return strings.Count(j.text(), text) >= n }) {
		t.Fatalf("job %s (%s): waited for %d times %q:\n%s", j.id, j.state(t), n, text, j.text())
	}
}

// wait waits for the end of the job, and returns its last state and its output.
func (j *slurmJob) wait(t *testing.T) (state, output string) {
	t.Helper()
	over := []string{"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
	if !poll(slurmTimeout, func() bool { state = j.state(t); return slices.Contains(over, state) }) {
		t.Fatalf("job %s is still %s:\n%s", j.id, state, j.text())
	}
	return state, j.text()
}

// salloc starts a command in an allocation of salloc. It runs on the head, which is not a node.
func (s *slurmCluster) salloc(t *testing.T, options []string, command ...string) *runningJob {
	t.Helper()
	words := slices.Concat([]string{"salloc", "-Q", "-t", "60"}, options, command)
	return s.startCommand(t, mpiexecCall{timeout: slurmTimeout}, words)
}

// terminate sends SIGTERM to mpiexec in an allocation and waits for the end of salloc. A SIGTERM to
// salloc itself need not end it.
func (s *slurmCluster) terminate(t *testing.T, r *runningJob) {
	t.Helper()
	for _, pid := range s.launchers() {
		syscall.Kill(pid, syscall.SIGTERM)
	}
	r.wait(t)
}

// countEqualLines returns each different line with its count: "n1:2 n2:2".
func countEqualLines(lines string) string {
	times := make(map[string]int)
	for line := range strings.Lines(lines) {
		times[strings.TrimSpace(line)]++
	}
	var words []string
	for line, n := range times {
		words = append(words, fmt.Sprintf("%s:%d", line, n))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A script of sbatch gets the tasks it has asked for, on the hosts it was given, by a step of
// Slurm's on each.
func slurmBatch(t *testing.T, s *slurmCluster) {
	j := s.submitScript(t, `exec $MPIEXEC -v sh -c 'hostname; ps -o comm= $(ps -o ppid= $(ps -o ppid= $PPID))'`, "-N3", "--ntasks-per-node=2", "-w", "n1,n2,n3")
	state, out := j.wait(t)
	if state != "COMPLETED" {
		t.Fatalf("%s: %s", state, out)
	}
	for text, want := range map[string]int{"\nn1\n": 2, "\nn2\n": 2, "\nn3\n": 2, "slurmstepd": 6, "(tight)": 1} {
		if n := strings.Count("\n"+strings.ReplaceAll(out, "\n", "\n\n"), text); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, want, out)
		}
	}
}

// From outside of the nodes, where salloc was called, all goes alike; this machine runs no
// rank (RM-34).
func slurmFromOutside(t *testing.T, s *slurmCluster) {
	for _, by := range []string{"ssh", "slurm", "auto"} {
		r := s.salloc(t, []string{"-N2", "-n3", "-w", "n2,n3"}, binary, "-launcher", by, "hostname").wait(t)
		if r.code != 0 || r.err != "" || countEqualLines(r.out) != "n2:2 n3:1" {
			t.Errorf("%q: exit %d: %s%s\nwant n2:2 n3:1", by, r.code, r.out, r.err)
		}
	}
}

// All bytes go through srun as they are, to a rank and back, much of them as well; nothing of the
// job is on a command line (RM-31).
func slurmStreams(t *testing.T, s *slurmCluster) {
	size := 16 << 20
	if os.Getenv("E2E_LONG") != "" {
		size = 100 << 20
	}
	sent := make([]byte, size)
	rand.NewChaCha8([32]byte{14}).Read(sent)
	for _, by := range []string{"slurm-each", "slurm-one"} {
		j := mpiexecCall{timeout: slurmTimeout, stdin: bytes.NewReader(sent)}
		words := []string{"salloc", "-Q", "-t", "60", "-N2", "-n2", "-w", "n1,n2", binary, "-launcher", by, "-genv", "TOKEN", "secret-of-rank", "-host", "n2,n1", "-stdin", "0", "sh", "-c", "if [ $MPIEXEC_RANK = 0 ]; then exec cat; fi"}
		r := s.startCommand(t, j, words).wait(t)
		if r.code != 0 || r.err != "" || sha256.Sum256([]byte(r.out)) != sha256.Sum256(sent) {
			t.Errorf("%s: exit %d, %d bytes of %d came back changed after %v: %s", by, r.code, len(r.out), size, r.took, r.err)
		}
		t.Logf("%s: %d bytes there and back in %v", by, size, r.took)
	}
	run := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, binary, "-genv", "TOKEN", "secret-of-rank", "sh", "-c", "echo ready; sleep 1000; :", "an-argument")
	run.awaitOut(t, "ready", 2)
	for _, h := range []string{"n1", "n2"} {
		for _, p := range s.processes(t, h) {
			line := strings.Join(p.Args, " ")
			if strings.Contains(line, "secret-of-rank") || strings.Contains(line, "an-argument") && !strings.HasPrefix(line, "sh -c") {
				t.Errorf("%s: ps shows %q", h, line)
			}
		}
	}
	s.terminate(t, run)
}

// In the shell of srun --pty, which Slurm has started once for each task, mpiexec starts the job's ranks on all of its hosts
// (RM-12).
func slurmTerminal(t *testing.T, s *slurmCluster) {
	line := s.mpiexec + " sh -c 'echo =$(hostname)='; exit\n"
	words := []string{"salloc", "-Q", "-t", "60", "-N2", "-n3", "-w", "n2,n3", "script", "-qec", "srun --pty sh", "/dev/null"}
	r := s.startCommand(t, mpiexecCall{timeout: slurmTimeout, stdin: strings.NewReader(line)}, words).wait(t)
	if r.code != 0 || strings.Count(r.out, "=n2=") != 2 || strings.Count(r.out, "=n3=") != 1 || strings.Contains(r.out, "mpiexec: ") {
		t.Errorf("exit %d: %s%s\nwant n2 twice and n3 once", r.code, r.out, r.err)
	}
}
