//go:build linux

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// A rank that keeps the others of a hanging program waiting is named with the reason, over hosts, with MPICH and Open MPI, while the job
// goes on.
func TestStacksOfHangs(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "hang-") // the hosts see it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, library := range []string{"mpich", "openmpi"} {
		compiler, err := exec.LookPath("mpicc." + library)
		if err != nil {
			t.Logf("no mpicc.%s", library)
			continue
		}
		program := filepath.Join(dir, "hang."+library)
		if text, err := exec.Command(compiler, "-g", "-O1", "-o", program, filepath.Join(repoRoot, "testdata/mpi/hang.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for how, want := range map[string]string{
			"skip":    "likely: rank 2 keeps the others waiting: it is in MPI_Barrier, most are in MPI_Allreduce",
			"receive": "likely: rank 2 keeps the others waiting: it is in MPI_Recv, most are in MPI_Allreduce",
			"loop":    "likely: rank 2 keeps the others waiting: it computes outside of MPI",
			"sleep":   "likely: rank 2 keeps the others waiting: it waits in the kernel, outside of MPI",
			"stop":    "likely: rank 2 keeps the others waiting: it is stopped by a signal",
		} {
			t.Run(library+" "+how, func(t *testing.T) {
				r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1:2,n2:1", "--kill-grace", "1", "--hang=3", program, how}})
				if !r.out.wait(t.Context(), func(all string) bool { return strings.Contains(all, "ready") }) {
					t.Fatal("it does not start")
				}
				id, out := b.jobID(t), ""
				b.awaitCondition(t, "the guess", func() bool {
					out, _, _ = b.runOnHead(t, binary, append([]string{"--status", id, "--stacks"}, b.hosts()...)...)
					return strings.Contains(out, want)
				}, &out)
				for _, line := range []string{"\n  ranks 0-1 ", " hang.c:12 exchange -> MPI_Allreduce ", "\n    exchange (hang.c:12)"} {
					if !strings.Contains(out, line) {
						t.Errorf("no %q in\n%s", line, out)
					}
				}
				noticed := regexp.MustCompile(`(?m)^mpiexec: no progress for \d+ s: 2 of 3 ranks wait in MPI_Allreduce, 1 does something else$`)
				if how != "loop" && how != "sleep" { // in these the rank goes on by itself
					soon, cancel := context.WithTimeout(t.Context(), longTimeout)
					defer cancel()
					if !r.err.wait(soon, func(all string) bool { return noticed.MatchString(all) && strings.Contains(all, want) }) {
						t.Errorf("not noticed:\n%s", r.err.String())
					}
				} else if told := r.err.String(); noticed.MatchString(told) {
					t.Errorf("%s", told)
				}
				b.runOnHead(t, binary, append([]string{"--end", id}, b.hosts()...)...) // a stopped rank heeds no ^C
				r.wait(t)
			})
		}
	}
}
