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

	"golang.org/x/sys/unix"

	"remshell/test/cgrouptest"
	"remshell/tools/testbed"
)

// The hangs that TestStacksOfHangs plants, with what is printed about each. noticed says that no rank can go on, so that mpiexec
// reports it unasked (--hang). In a rank that computes, sleeps or polls, nothing is reported unasked.
var plantedHangs = []struct {
	how, library string // how: the argument of testdata/mpi/hang.c, or of hang.py
	likely       string
	noticed      bool
}{
	{"skip", "mpich", "rank 7 keeps the others waiting: it is in MPI_Barrier, but most ranks are in MPI_Allreduce", true},
	{"skip", "openmpi", "rank 7 keeps the others waiting: it is in MPI_Barrier, but most ranks are in MPI_Allreduce", true},
	{"order", "mpich", "rank 7 keeps the others waiting: it is in MPI_Gather, but most ranks are in MPI_Barrier", true},
	{"root", "mpich", "", true},
	{"comm", "openmpi", "", true},
	{"count", "mpich", "", true},
	{"receive", "openmpi", "rank 7 keeps the others waiting: it is in MPI_Recv, but most ranks are in MPI_Allreduce", true},
	{"send", "openmpi", "rank 7 keeps the others waiting: it is in MPI_Send, but most ranks are in MPI_Allreduce", true},
	{"pair", "mpich", "ranks 6-7 keep the others waiting: they are in MPI_Send, but most ranks are in MPI_Allreduce", true},
	{"twice", "mpich", "rank 7 keeps the others waiting: it is in MPI_Barrier, but most ranks are in MPI_Allreduce", true},
	{"finalize", "openmpi", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", true},
	{"fifo", "openmpi", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", true},
	{"socket", "mpich", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", true},
	{"lock", "openmpi", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", true},
	{"page", "mpich", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", true},
	{"child", "openmpi", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", true},
	{"memory", "openmpi", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", true},
	{"stop", "mpich", "rank 7 keeps the others waiting: the rank is stopped by SIGSTOP", true},
	{"ttin", "openmpi", "rank 7 keeps the others waiting: the rank is stopped by SIGTTIN", true},
	{"sleep", "mpich", "rank 7 keeps the others waiting: it waits in the kernel, outside of MPI", false},
	{"loop", "openmpi", "rank 7 keeps the others waiting: it computes outside of MPI", false},
	{"gil", "python", "rank 7 keeps the others waiting: it ", false}, // it polls for the lock
	{"python-skip", "python", "rank 7 keeps the others waiting: it is in MPI_Bcast, but most ranks are in MPI_Barrier", true},
	{"sockets", "python", "", true}, // without MPI, so nothing tells which wait is the wrong one
}

// While a program hangs, over eight hosts, the rank that keeps the others waiting is named with the reason: by mpijob status
// --stacks, and unasked if no rank can go on.
func TestStacksOfHangs(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 8})
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "hang-") // the hosts see it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, h := range plantedHangs {
		t.Run(h.library+" "+h.how, func(t *testing.T) {
			command := append(hangingProgram(t, dir, h.library), h.how)
			switch h.how {
			case "fifo", "child":
				fifo := filepath.Join(dir, h.how)
				if err := unix.Mkfifo(fifo, 0o600); err != nil {
					t.Fatal(err)
				}
				command = append(command, fifo)
			case "memory":
				command = append(command, cgrouptest.PausingMemoryGroup(t, 1<<20))
			}
			r := b.startMpiexec(t, mpiexecCall{args: append([]string{"-host", strings.Join(b.hosts(), ","), "-ppn", "1", "-n", "8", "--kill-grace", "1", "--hang=3"}, command...)})
			if !r.out.wait(t.Context(), func(all string) bool { return strings.Contains(all, "ready") }) {
				t.Fatalf("it does not start: %s", r.err.String())
			}
			id, out := b.jobID(t), ""
			want := "\n  likely: " + h.likely
			if h.likely == "" {
				want = "\n  ranks 0-7 "
			}
			b.awaitCondition(t, "explanation", func() bool {
				out, _, _ = b.runOnHead(t, binary, append([]string{"--status", id, "--stacks"}, b.hosts()...)...)
				return strings.Contains(out, want)
			}, &out)
			if h.library == "mpich" && h.how == "skip" {
				for _, line := range []string{"\n  ranks 0-6 ", " exchange -> MPI_Allreduce ", " 7 ranks on n[1-7])", "\n    exchange (hang.c:"} {
					if !strings.Contains(out, line) {
						t.Errorf("no %q in\n%s", line, out)
					}
				}
			}
			report := regexp.MustCompile(`(?m)^mpiexec: no progress for \d+ s: .*(\n  .*)+`)
			if h.noticed {
				soon, cancel := context.WithTimeout(t.Context(), longTimeout)
				defer cancel()
				if !r.err.wait(soon, func(all string) bool { return strings.Contains(report.FindString(all), want) }) {
					t.Errorf("not noticed:\n%s", r.err.String())
				}
			} else if told := report.FindString(r.err.String()); told != "" {
				t.Errorf("a rank goes on, but this was reported:\n%s", told)
			}
			b.runOnHead(t, binary, append([]string{"--end", id}, b.hosts()...)...) // a stopped rank heeds no ^C
			r.wait(t)
		})
	}
}

// hangingProgram returns the command line of the program that hangs, built for an MPI library. It skips the test if that is not
// installed.
func hangingProgram(t *testing.T, dir, library string) []string {
	t.Helper()
	if library == "python" {
		const python = "/usr/bin/python3" // the one for which packages of the distribution are installed
		if exec.Command(python, "-c", "import mpi4py").Run() != nil {
			t.Skip("no mpi4py")
		}
		return []string{python, filepath.Join(repoRoot, "testdata/mpi/hang.py")}
	}
	program := filepath.Join(dir, "hang."+library)
	if _, err := os.Stat(program); err == nil {
		return []string{program}
	}
	compiler, err := exec.LookPath("mpicc." + library)
	if err != nil {
		t.Skipf("no mpicc.%s", library)
	}
	if text, err := exec.Command(compiler, "-g", "-O1", "-o", program, filepath.Join(repoRoot, "testdata/mpi/hang.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return []string{program}
}

// A program that hangs in MPI_Finalize because of the fault of Debian 12's MPICH is explained by that, with what to do. The program hangs
// in some of its runs only.
func TestHangInFinalizeOfMPICH(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "hello.mpich4")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	const runs = 30
	for i := range runs {
		r := b.runMpiexec(t, "-host", "n1:1,n2:1", "-n", "2", "--kill-grace", "1", "--hang=2", "--hang-action", "end", program)
		if r.code == 0 {
			continue
		}
		for _, line := range []string{"\nmpiexec: no progress for ", " s: all 2 ranks wait in MPI_Finalize\n",
			"\n  known fault: the program is linked with MPICH 4.0 with UCX (Debian 12)",
			"\n  build the program with another MPI library"} {
			if r.code != 124 || !strings.Contains("\n"+r.err, line) {
				t.Errorf("exit %d, no %q in\n%s", r.code, line, r.err)
			}
		}
		t.Logf("run %d hung:\n%s", i+1, r.err)
		return
	}
	t.Logf("the program ended in all %d runs: this machine does not show the fault", runs)
}
