//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// The functions, files and lines of Python programs are part of the stacks, over hosts, with mpi4py and without MPI.
func TestStacksOfPython(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import mpi4py").Run() != nil {
		t.Skip("needs python3-mpi4py")
	}
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	program, err := filepath.Abs(filepath.Join(repoRoot, "testdata/mpi/stuck.py"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	lineOf := func(text string) string { // where the source has it
		before, _, _ := strings.Cut(string(source), text)
		return "stuck.py:" + strconv.Itoa(1+strings.Count(before, "\n"))
	}
	reduce := "\n  ranks 0-1,3   +" + lineOf("self.comm.Allreduce") + ` Solver\.exchange -> MPI_Allreduce +\(spinning, 3 ranks on n\[1-2\]\)`
	for how, want := range map[string][]string{
		"sleep": {reduce, "\n  rank 2 on n2 +" + lineOf("time.sleep") + ` write_restart -> clock_nanosleep +\(sleeping`,
			"likely: rank 2 keeps the others waiting: it waits in the kernel, outside of MPI",
			"\n  <module> .*\n    main .*\n      Solver.run .*\n        Solver.exchange .*\n          MPI_Allreduce"},
		"loop": {reduce, "\n  rank 2 on n2 +stuck.py:[0-9]+ (compute|compute.<locals>.<genexpr>) +\\(running",
			"likely: rank 2 keeps the others waiting: it computes outside of MPI"},
		"lock": {reduce, "\n  rank 2 on n2 +threading.py:[0-9]+ Condition.wait -> ", "likely: rank 2 "},
		"barrier": {reduce, "\n  rank 2 on n2 +" + lineOf("comm.Barrier()  #") + " main -> MPI_Barrier",
			"likely: rank 2 keeps the others waiting: it is in MPI_Barrier, but most ranks are in MPI_Allreduce"},
	} {
		t.Run(how, func(t *testing.T) {
			r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1:2,n2:2", "--kill-grace", "1", python, program, how}})
			if !r.out.wait(t.Context(), func(all string) bool { return strings.Contains(all, "ready") }) {
				t.Fatal("it does not start")
			}
			b.awaitStacks(t, r, want...)
		})
	}
}

// awaitStacks waits until the stacks of the only job match all given patterns, and ends the job.
func (b *testCluster) awaitStacks(t *testing.T, r *runningJob, patterns ...string) {
	t.Helper()
	id, out := b.jobID(t), ""
	b.awaitCondition(t, "the stacks", func() bool {
		out, _, _ = b.runOnHead(t, binary, append([]string{"--status", id, "--stacks"}, b.hosts()...)...)
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(out) {
				return false
			}
		}
		return true
	}, &out)
	b.runOnHead(t, binary, append([]string{"--end", id}, b.hosts()...)...)
	r.wait(t)
}

// Ranks that wait in a collective of torch.distributed are named like those in MPI calls.
func TestStacksOfTorch(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import torch.distributed").Run() != nil {
		t.Skip("needs python3-torch")
	}
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	program, err := filepath.Abs(filepath.Join(repoRoot, "testdata/mpi/gloo.py"))
	if err != nil {
		t.Fatal(err)
	}
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1:2,n2:2", "--env-compat", "torch", "--kill-grace", "1", python, program}})
	if !r.out.wait(t.Context(), func(all string) bool { return strings.Count(all, "ready") == 4 }) {
		t.Fatal("it does not start")
	}
	b.awaitStacks(t, r, "\n  ranks 0-1,3 .* -> torch.distributed.all_reduce +\\(", "\n  rank 2 on n2 +gloo.py:[0-9]+ load -> clock_nanosleep",
		"likely: rank 2 keeps the others waiting: it waits in the kernel, outside of torch.distributed")
}
