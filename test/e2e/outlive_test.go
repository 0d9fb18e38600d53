//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// -disable-auto-cleanup, or --enable-recovery: a rank that ends after MPI_Init ends no other, with MPICH and
// with Open MPI, whose MPI_Finalize then goes on without it.
func TestRanksOutliveADeadOne(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "outlive-") // the hosts see it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, test := range []struct{ program, option, end, finalize, report, failed string }{
		{"outlive", "-disable-auto-cleanup", "exit", "", "exited with code 5; the job continues with 2 ranks", "failed\n"},
		{"outlive", "-disable-auto-cleanup", "kill", "", "died: Killed (signal 9); the job continues with 2 ranks", "failed\n"},
		{"outlive", "-disable-auto-cleanup", "two", "", "exited with code 5; the job continues with 2 ranks", "failed\n"}, // 1-2 as a range crashes MPICH
		{"outlive.openmpi", "--enable-recovery", "exit", "finalize", "exited with code 5; the job continues with 2 ranks", ""},
		{"outlive.openmpi", "--enable-recovery", "kill", "finalize", "died: Killed (signal 9); the job continues with 2 ranks", ""},
	} {
		t.Run(test.program+" "+test.end, func(t *testing.T) {
			proceed := filepath.Join(dir, test.program+test.end)
			hosts := "n1:2,n2:1"
			if test.end == "two" {
				hosts = "n1:2,n2:2"
			}
			line := []string{"-host", hosts, test.option, mpiProgram(t, test.program), test.end, proceed}
			if test.finalize != "" {
				line = append(line, test.finalize)
			}
			r := b.startMpiexec(t, mpiexecCall{args: line})
			r.awaitErr(t, test.report, 1)
			if err := os.WriteFile(proceed, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			done := r.wait(t)
			if done.code == 0 || strings.Count(done.out, "lives") != 2 || !strings.Contains(done.out, test.failed) {
				t.Errorf("exit %d, %q, %q", done.code, done.out, done.err)
			}
		})
	}
}

// --enable-recovery over hosts: a parent that disconnects from its child, all of whose ranks have died, is let out with an
// error, as on one host. It waited for ever.
func TestParentsAreLetOutOfADeadGroup(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "parted-") // the hosts see it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, when := range []string{"early", "late"} {
		t.Run(when, func(t *testing.T) {
			proceed := filepath.Join(dir, when)
			r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1:1,n2:1", "--enable-recovery", "-timeout", "100", "-n", "1", mpiProgram(t, "parted.openmpi"), when, proceed}})
			if r.awaitOut(t, "spawned", 1); when == "early" {
				r.awaitErr(t, "exited with code 5; the job continues with", 1)
			}
			if err := os.WriteFile(proceed, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if done := r.wait(t); done.code != 5 || !strings.Contains(done.out, "disconnected") {
				t.Errorf("exit %d, %q, %q", done.code, done.out, done.err)
			}
		})
	}
}
