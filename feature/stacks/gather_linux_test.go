package stacks

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/feature/stacks/tree"
	"remshell/job"
)

// A rank that a debugger traces is left alone, and the report says which process traces it. Other ranks are read.
func TestRankUnderADebugger(t *testing.T) {
	var targets []target
	for rank := range 2 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		targets = append(targets, target{rank, cmd.Process.Pid})
	}
	seized, release := make(chan error), make(chan bool)
	defer close(release)
	go func() {
		runtime.LockOSThread()
		seized <- unix.PtraceSeize(targets[1].pid)
		<-release
	}()
	if err := <-seized; err != nil {
		t.Fatal(err)
	}
	notes := make(map[int]job.StackGroup)
	report := gatherStacks(targets, time.Now().Add(10*time.Second)).report
	for _, g := range report.Groups {
		for _, rank := range g.Ranks {
			notes[rank] = g
		}
	}
	if g := notes[0]; g.Note != "" || len(g.Frames) == 0 {
		t.Errorf("rank 0: %+v", g)
	}
	if g := notes[1]; !strings.HasPrefix(g.Note, "process ") || !strings.HasSuffix(g.Note, " traces it already") || len(g.Frames) != 0 {
		t.Errorf("rank 1: %+v", g)
	}
	var status unix.WaitStatus
	if got, err := unix.Wait4(targets[1].pid, &status, unix.WNOHANG|unix.WUNTRACED, nil); got != 0 || err != nil {
		t.Error("it was stopped: " + fmt.Sprint(status, err))
	}
}

const waitsInMPI = `#include <stdio.h>
volatile int sink;
__attribute__((noinline)) void MPI_Barrier(void) { for (;;) sink++; }
int main(void) { puts("ready"); fflush(stdout); MPI_Barrier(); sink++; }
`

// A rank under strace or gdb is not blamed for a hang. The report says that it could not be read because it is traced.
func TestRankUnderStraceOrGDBIsNotBlamed(t *testing.T) {
	waits := compileC(t, waitsInMPI)
	for _, tracer := range [][]string{{"strace", "-o", "/dev/null", "-p"}, {"gdb", "-q", "-nx", "-p"}} {
		t.Run(tracer[0], func(t *testing.T) {
			if _, err := exec.LookPath(tracer[0]); err != nil {
				t.Skip("needs " + tracer[0])
			}
			var targets []target
			for rank := range 4 {
				targets = append(targets, target{rank, startProgram(t, waits)})
			}
			cmd := exec.Command(tracer[0], append(tracer[1:], fmt.Sprint(targets[3].pid))...)
			if _, err := cmd.StdinPipe(); err != nil { // gdb waits for commands
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			traced := func() bool {
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", targets[3].pid))
				return err != nil || !strings.Contains(string(status), "\nTracerPid:\t0\n")
			}
			for end := time.Now().Add(time.Minute); !traced(); {
				if time.Now().After(end) {
					t.Skipf("%s may not trace a process here", tracer[0])
				}
				runtime.Gosched()
			}
			got := ""
			for range 100 { // a rank may still return from puts
				got = tree.Summarize(gatherStacks(targets, time.Now().Add(10*time.Second)).report, true)
				if strings.Contains(got, "-> MPI_Barrier") || strings.Contains(got, "ranks 0-2 ") {
					break
				}
			}
			if want := "  not read: rank 3, because another program, such as gdb or strace, traces it\n"; strings.Contains(got, "likely") || !strings.Contains(got, want) {
				t.Errorf("no %q, or blamed:\n%s", want, got)
			}
		})
	}
}

const inCxx = `#include <cstdio>
#include <numeric>
#include <vector>
namespace solver { volatile int sink; std::vector<int> mesh(1 << 20);
__attribute__((noinline)) void relax() {
	for (;;)
		sink = std::accumulate(mesh.begin(), mesh.end(), sink);
}
}
int main() { std::puts("ready"); std::fflush(stdout); solver::relax(); return 0; }
`

// If a rank is in an inlined function of a library, its place is the innermost line of the user's own code, and not a line of
// the library's header.
func TestPlaceIsInTheUsersOwnCode(t *testing.T) {
	targets, got := []target{{0, startProgram(t, compileC(t, inCxx))}}, ""
	for range 100 { // it may still return from puts
		if got = tree.Format(gatherStacks(targets, time.Now().Add(10*time.Second)).report); strings.Contains(got, "relax") {
			break
		}
	}
	if !strings.Contains(got, "planted.cc:7 solver::relax") || strings.Contains(got, ".h:") {
		t.Error(got)
	}
}

// compileC compiles a program in C or C++ with debug information and returns its path. It skips the test if there is no compiler.
func compileC(t *testing.T, source string) string {
	t.Helper()
	name, suffix := "gcc", ".c"
	if strings.Contains(source, "namespace") {
		name, suffix = "g++", ".cc"
	}
	compiler, err := exec.LookPath(name)
	if err != nil {
		t.Skip("needs " + name)
	}
	file, out := filepath.Join(t.TempDir(), "planted"+suffix), filepath.Join(t.TempDir(), "planted")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(compiler, "-g", "-O2", "-o", out, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// startProgram starts a program, waits until it prints a line, and returns its process ID.
func startProgram(t *testing.T, program string) int {
	t.Helper()
	cmd := exec.Command(program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd.Process.Pid
}

// If reading the files of programs takes too long, the states of the ranks are reported nevertheless.
func TestFilesThatHang(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	forever := make(chan job.StackReport)
	defer close(forever)
	targets := []target{{3, cmd.Process.Pid}}
	report := inTime(time.Millisecond, func() job.StackReport { return <-forever }, func() job.StackReport { return describeAll(targets) })
	if len(report.Groups) != 1 || !slices.Equal(report.Groups[0].Ranks, []int{3}) || report.Groups[0].Note != errFilesHang.Error() || len(report.Groups[0].Frames) != 0 {
		t.Errorf("%+v", report)
	}
	if got := inTime(time.Hour, func() int { return 1 }, func() int { return 2 }); got != 1 {
		t.Error("what was read in time is not returned")
	}
}
